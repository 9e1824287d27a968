"""The metrics, their types and what they say. Counters and histograms are written by `Meter`, gauges at the scrape."""

from __future__ import annotations

COUNTERS = {
    "preflight_deliveries": "Webhook deliveries by event and by what became of them",
    "preflight_jobs": "Jobs by how they ended",
    "preflight_github_requests": "Requests to GitHub by installation (app: as the app itself), verb and status",
    "preflight_findings": "Findings in reviews by rule and severity",
    "preflight_checks": "Concluded check runs by name and conclusion",
    "preflight_failures": "What went wrong and was dealt with: jobs lost, reviews given up, deliveries asked for again",
}
HISTOGRAMS = {
    "preflight_delivery_seconds": "Time to answer a delivery",
    "preflight_job_seconds": "Time of jobs by stage",
    "preflight_wait_seconds": "Time from a delivery to its concluded review",
}
