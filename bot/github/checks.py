"""Check runs: created early, found again by external id, annotated in chunks that append, concluded last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from bot.core.plan import Annotation, CheckOutcome
from bot.github.retry import Api, look_then_write
from bot.render import limits

ANNOTATIONS_PER_REQUEST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """`num_annotations` is what GitHub holds: annotations can be added, never taken back."""

    id: int
    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None
    title: str
    num_annotations: int


class Checks:
    """The check runs of one repository."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api = api
        self._repo = repo
        self.details_url = ""
        """Where the checks' link leads; empty leaves it to GitHub."""

    def start(self, name: str, sha: str, external_id: str, title: str, *, look_first: bool = False) -> CheckRun:
        """An ``in_progress`` run. `look_first` where an earlier job may have created it and died."""
        body = {
            "name": name,
            "head_sha": sha,
            "status": "in_progress",
            "external_id": external_id,
            "started_at": _now(),
            "output": {"title": title, "summary": "The result follows."},
            **self._link(),
        }

        def create() -> CheckRun:
            return check_run(self._api.write("POST", f"{self._repo}/check-runs", body))

        def look() -> CheckRun | None:
            found = [run for run in self.on_commit(sha, name) if run.external_id.startswith(external_id)]
            return found[0] if found else None

        return (look() if look_first else None) or look_then_write(create, look)

    def completed(self, name: str, sha: str, external_id: str, conclusion: str, title: str, summary: str) -> None:
        """A run that is created with its conclusion (merge queue)."""
        body = {
            "name": name,
            "head_sha": sha,
            "external_id": external_id,
            **_concluded(conclusion),
            "output": {"title": limits.title(title), "summary": limits.check_text(summary)},
        }

        def look() -> bool | None:
            return any(run.external_id == external_id for run in self.on_commit(sha, name)) or None

        look_then_write(lambda: bool(self._api.write("POST", f"{self._repo}/check-runs", body)), look)

    def on_commit(self, sha: str, name: str | None = None) -> list[CheckRun]:
        """The runs on a commit, newest first, older ones of one name included."""
        found: list[CheckRun] = []
        for page in range(1, 11):
            parameters = {"filter": "all", "per_page": 100, "page": page} | ({"check_name": name} if name else {})
            answer = self._api.get(f"{self._repo}/commits/{sha}/check-runs", parameters)
            found += [check_run(entry) for entry in answer["check_runs"]]
            if len(answer["check_runs"]) < 100:
                break
        return found

    def get(self, run_id: int) -> CheckRun:
        """One run."""
        return check_run(self._api.get(f"{self._repo}/check-runs/{run_id}"))

    def summary(self, run_id: int) -> str:
        """The text of a run's summary."""
        return str((self._api.get(f"{self._repo}/check-runs/{run_id}").get("output") or {}).get("summary") or "")

    def conclude(self, run_id: int, external_id: str, outcome: CheckOutcome, *, look_first: bool = False) -> None:
        """Annotations in chunks, each once, the conclusion with the last chunk.

        `look_first` where an earlier job may have sent some chunks: GitHub appends what it is sent again.
        """
        done = self.get(run_id).num_annotations if look_first else 0
        while len(outcome.annotations) - done > ANNOTATIONS_PER_REQUEST:
            upto = done + ANNOTATIONS_PER_REQUEST
            self._patch(run_id, {"output": _output(outcome, outcome.annotations[done:upto])}, upto)
            done = upto
        body = {
            "external_id": external_id,
            **_concluded(outcome.conclusion),
            "output": _output(outcome, outcome.annotations[done:]),
            "actions": [asdict(action) for action in outcome.actions],
            **self._link(),
        }
        self._patch(run_id, body, len(outcome.annotations), is_last=True)

    def _link(self) -> dict[str, str]:
        return {"details_url": self.details_url} if self.details_url else {}

    def _patch(self, run_id: int, body: Mapping[str, Any], total: int, *, is_last: bool = False) -> None:
        """`total` is the number of annotations the run holds when the request was done."""

        def look() -> bool | None:
            run = self.get(run_id)
            return (run.num_annotations >= total and (not is_last or run.status == "completed")) or None

        look_then_write(lambda: bool(self._api.write("PATCH", f"{self._repo}/check-runs/{run_id}", body)), look)


def check_run(document: Mapping[str, Any]) -> CheckRun:
    return CheckRun(
        id=int(document["id"]),
        name=str(document["name"]),
        head_sha=str(document["head_sha"]),
        external_id=str(document.get("external_id") or ""),
        status=str(document["status"]),
        conclusion=document.get("conclusion"),
        title=str((document.get("output") or {}).get("title") or ""),
        num_annotations=int((document.get("output") or {}).get("annotations_count") or 0),
    )


def _concluded(conclusion: str) -> dict[str, str]:
    # The description allows `completed` without a conclusion; GitHub refuses it: they are written together only here.
    return {"status": "completed", "conclusion": conclusion, "completed_at": _now()}


def _output(outcome: CheckOutcome, annotations: Sequence[Annotation]) -> dict[str, Any]:
    output: dict[str, Any] = {"title": limits.title(outcome.title), "summary": limits.check_text(outcome.summary)}
    if outcome.text:
        output["text"] = limits.check_text(outcome.text)
    if annotations:
        output["annotations"] = [_annotation(annotation) for annotation in annotations]
    return output


def _annotation(annotation: Annotation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": annotation.path,
        "start_line": annotation.start_line,
        "end_line": annotation.end_line,
        "annotation_level": annotation.level,
        "message": limits.annotation_text(annotation.message),
        "title": limits.title(annotation.title),
    }
    if annotation.raw_details:
        document["raw_details"] = limits.annotation_text(annotation.raw_details)
    if annotation.start_line == annotation.end_line and annotation.start_column is not None:
        document["start_column"] = annotation.start_column
        document["end_column"] = annotation.end_column or annotation.start_column
    return document


def _now() -> str:
    # PyGithub would format a time with another offset as if it were UTC: we send text, in UTC.
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
