"""May this command run? What the check of a commit says and what an estimate here says: the stricter answer counts.

| | fits | borderline | unknown | exceeds |
| --- | --- | --- | --- | --- |
| policy `block` | runs | blocked, or ``--allow-borderline`` | blocked, or ``--allow-unknown`` | blocked |
| policy `warn`, `advisory` | runs | runs, said | runs, said | runs, said |

With a commit, its check must be there, finished and not failed, whatever the policy; and every file that the launch
reads must be byte-identical to that commit. An override lifts ``exceeds`` of that commit and nothing else.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from bot.core.config import Mode
from bot.core.external_id import parse_external_id
from bot.core.launch_states import known_states, states_in
from bot.core.plan import MEMORY_CHECK, State
from bot.errors import InputError
from estimator.api import Verdict

CheckState = Literal[State, "absent", "unfinished"]
Change = Literal["changed", "untracked", "missing"]
_NO_ANSWER: Mapping[CheckState, str] = {
    "absent": "there is no preflight/memory check of this app on the commit",
    "unfinished": "the preflight/memory check of the commit is not finished: wait for it, then submit again",
    "failed": "Preflight failed on the commit: press Re-run on preflight/memory",
    "skipped": "the check of the commit was skipped (a draft, or superseded by a newer push): nothing was estimated",
}
_LIFTS = {"borderline": "--allow-borderline", "unknown": "--allow-unknown"}
MAX_NAMED = 20
_STATES = frozenset({*get_args(State), "absent", "unfinished"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """What the person who submits accepts."""

    borderline: bool = False
    unknown: bool = False

    def takes(self, state: str) -> bool:
        """Whether `state` may run although nobody knows that it fits."""
        return (state == "borderline" and self.borderline) or (state == "unknown" and self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """One launch of the command, estimated where it is submitted. `sources` are the launch files it was read from.

    `is_of_commit`: the same launch without the options and variables of this command has the same verdict.
    """

    path: str
    line: int
    verdict: Verdict
    mode: Mode = "block"
    sources: frozenset[str] = frozenset()
    estimate: Mapping[str, Any] | None = None
    why: str = ""
    smoke_test: str = ""
    is_of_commit: bool = True

    @property
    def place(self) -> str:
        """The line of the launch file."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """``preflight/memory`` of one commit, as the newest run of our app has it."""

    state: CheckState
    title: str = ""
    url: str = ""
    note: str = ""
    """Who overrode it and why."""
    launches: Mapping[str, State] | None = None

    def of(self, paths: frozenset[str]) -> CheckState | None:
        """What it says of these launch files; None where it lists launch files and has none of these."""
        if self.launches is None:
            return self.state
        found = {self.launches[path] for path in paths if path in self.launches}
        worst = next((state for state in ("exceeds", "borderline", "unknown", "ok") if state in found), None)
        return "overridden" if worst == "exceeds" and self.state == "overridden" else worst


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that the launch reads and that is not as the commit has it."""

    path: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`blockers` empty: the command may run. `notes` are said either way."""

    blockers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    here: tuple[Here, ...] = field(default=())
    check: Check | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether the command may run."""
        return not self.blockers


def check_of(runs: Sequence[Mapping[str, Any]], *, sha: str, app_id: int, repo_id: int | None = None) -> Check:
    """The check in GitHub's list of the commit's runs: ours by app id, for exactly this commit, the newest."""
    ours = [
        run
        for run in runs
        if run.get("name") == MEMORY_CHECK and (run.get("app") or {}).get("id") == app_id and run.get("head_sha") == sha
    ]
    if not ours:
        return Check(state="absent")
    newest = max(ours, key=lambda run: int(run["id"]))
    known = parse_external_id(newest.get("external_id"))
    output = newest.get("output") or {}
    title, url = str(output.get("title") or ""), str(newest.get("html_url") or "")
    if known is None or known.sha != sha or (repo_id is not None and known.repo_id != repo_id):
        return Check(state="absent", title=title, url=url)
    if newest.get("status") != "completed" or known.state is None or known.is_mirror:
        return Check(state="unfinished", title=title, url=url)
    note = _override_note(output) if known.state == "overridden" else ""
    launches = states_in(output.get("text"))
    return Check(state=known.state, title=title, url=url, note=note, launches=launches)


def _override_note(output: Mapping[str, Any]) -> str:
    """Who overrode it and why: the sentence of the summary (`bot.render.decisions.override_text`), as plain words."""
    lines = str(output.get("summary") or "").splitlines()
    said = next((line for line in lines if line.startswith("**Overridden**")), "")
    return html.unescape(re.sub(r"[*`\\]", "", said))[:500]


def check_from_json(document: Any) -> Check:
    """The check that ``GET /gate`` wrote. Raises `InputError` for anything else."""
    if not isinstance(document, dict) or document.get("state") not in _STATES:
        raise InputError("the Preflight server's answer is not that of GET /gate")
    texts = {name: str(document.get(name) or "") for name in ("title", "url", "note")}
    return Check(
        state=cast(CheckState, document["state"]),
        title=texts["title"],
        url=texts["url"],
        note=texts["note"],
        launches=known_states(document.get("launches")),
    )


def check_to_json(check: Check) -> dict[str, Any]:
    """What ``GET /gate`` answers of a check."""
    return {
        "state": check.state,
        "title": check.title,
        "url": check.url,
        "note": check.note,
        "launches": None if check.launches is None else dict(check.launches),
    }


def decide(
    here: Sequence[Here], allow: Allow, *, check: Check | None = None, differences: Sequence[Difference] = ()
) -> Decision:
    """The one answer. Without `check` only the estimates here count."""
    blockers: list[str] = []
    notes: list[str] = []
    if check is not None and check.state in _NO_ANSWER:
        blockers.append(_NO_ANSWER[check.state])
    if differences:
        blockers.append(_different(differences))
    is_overridden = check is not None and check.state == "overridden"
    if is_overridden and check is not None:
        notes.append(f"overridden: {check.note or check.title}")
    for item in here:
        for text, is_blocker in _said(item, allow, check, is_overridden):
            (blockers if is_blocker else notes).append(text)
    return Decision(
        blockers=tuple(dict.fromkeys(blockers)), notes=tuple(dict.fromkeys(notes)), here=tuple(here), check=check
    )


def _said(item: Here, allow: Allow, check: Check | None, is_overridden: bool) -> Iterator[tuple[str, bool]]:
    if item.verdict == "exceeds" and is_overridden:
        if item.is_of_commit:
            yield f"{item.place} exceeds its GPU, which was overridden for this commit", False
        else:
            why = "through options or variables of this command, for which the override is not"
            yield f"{item.place} exceeds its GPU {why}", item.mode == "block"
    elif item.verdict != "fits":
        yield _sentence(item), item.mode == "block" and not allow.takes(item.verdict)
    if check is not None and check.state not in _NO_ANSWER:
        state = check.of(item.sources | {item.path})
        if state in {"exceeds", "borderline", "unknown"} and state != item.verdict:
            text = f"the check of the commit says {state} for {item.path}{_lift(str(state))}"
            yield text, item.mode == "block" and not allow.takes(str(state))


def _sentence(item: Here) -> str:
    if item.verdict == "exceeds":
        return f"{item.place} cannot fit its GPU"
    if item.verdict == "borderline":
        smoke = f"; run a smoke test first: {item.smoke_test}" if item.smoke_test else ""
        return f"{item.place} is borderline{_lift('borderline')}{smoke}"
    no_target = item.estimate is not None and not item.estimate.get("targets")
    remedy = (
        "; name a GPU in the job, or map it under `targets` in the default branch's configuration" if no_target else ""
    )
    return f"{item.place} is unknown{f' ({item.why})' if item.why else ''}{remedy}{_lift('unknown')}"


def _lift(state: str) -> str:
    return f" ({_LIFTS[state]} runs it)" if state in _LIFTS else ""


def _different(differences: Sequence[Difference]) -> str:
    named = ", ".join(f"{item.path} ({item.change})" for item in differences[:MAX_NAMED])
    more = f" and {len(differences) - MAX_NAMED} more" if len(differences) > MAX_NAMED else ""
    return f"what would run is not what the commit has: {named}{more}"
