"""Every launch config of a commit of the default branch, as one check: ``ReviewInput`` -> `Plan`, without I/O.

Merge and squash commits are new commits: no pull request's check speaks of them, nor of the launch files that no pull
request touched. The submission gate asks for both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from analyzer.api import Files
from analyzer.findings import Finding
from bot.core.launch_states import states_marker
from bot.core.plan import MEMORY_CHECK, Annotation, CheckOutcome, Plan
from bot.core.policy import STATE_OF_VERDICT, conclusion, level, memory_state
from bot.core.review_input import ReviewInput, WithoutFiles
from bot.render import limits
from bot.render.branch import branch_texts
from bot.render.checks import annotation, failed_texts
from bot.render.markdown import Links
from estimator import api as estimator_api
from estimator.api import Impacts

log = logging.getLogger(__name__)
Inventory = Callable[[Files, Mapping[str, str], Callable[[str], bool]], Impacts]


def check_branch(given: ReviewInput, inventory: Inventory = estimator_api.inventory) -> Plan:
    """The one check of the commit. A config that the tree has does not excuse: it is the default branch's own."""
    head = WithoutFiles(given.head, given.skip)
    config = given.config
    try:
        impacts = inventory(head, config.targets, config.looks_at_launch)
    except Exception as error:  # job boundary: a bug of ours is said in the check
        log.exception("the estimator failed")
        title, summary = failed_texts("The memory estimate", type(error).__name__)
        end = conclusion("failed", config.memory, config)
        failed = CheckOutcome(name=MEMORY_CHECK, conclusion=end, state="failed", title=title, summary=summary)
        return Plan(head_sha=given.snapshot.head_sha, checks=(failed,))
    snapshot = given.snapshot
    links = Links(given.web_url, snapshot.full_name, snapshot.head_sha, has_page=False)
    state = memory_state(impact.verdict for impact in impacts)
    too_large = [impact.path for impact in impacts if impact.verdict == "exceeds"]
    title, summary, text = branch_texts(impacts, impacts.notes, links)
    marker = states_marker((impact.path, STATE_OF_VERDICT[impact.verdict]) for impact in impacts)
    findings = [found for impact in impacts if (found := estimator_api.impact_finding(impact)) is not None]
    check = CheckOutcome(
        name=MEMORY_CHECK,
        conclusion=conclusion(state, config.strictest("memory", too_large), config),
        state=state,
        title=limits.title(title),
        summary=limits.check_text(summary),
        text=limits.check_text(f"{marker}\n\n{text}"),
        annotations=tuple(_annotations(findings, given)),
    )
    return Plan(head_sha=snapshot.head_sha, checks=(check,))


def _annotations(findings: Sequence[Finding], given: ReviewInput) -> list[Annotation]:
    modes = [(finding, given.config.mode("memory", finding.path)) for finding in findings]
    return [annotation(finding, level(finding.severity, mode)) for finding, mode in modes]
