"""From results to conclusions (DESIGN section 6, *Check runs*).

| result | advisory | warn | block | state |
| --- | --- | --- | --- | --- |
| nothing found, `fits`, nothing affected | success | success | success | ok |
| findings below error, `borderline` | neutral | neutral | neutral | borderline |
| a file that could not be analysed, `unknown` | neutral | neutral | neutral | unknown |
| an error, `exceeds` | neutral | neutral | failure | exceeds |
| Preflight failed | neutral, or failure where configured | | | failed |
| draft | skipped | skipped | skipped | skipped |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from analyzer.findings import Finding, Severity
from bot.core.config import Config, Mode
from bot.core.plan import Conclusion, State
from estimator.api import Verdict

Level = Literal["notice", "warning", "failure"]
_WORST_FIRST: tuple[State, ...] = ("exceeds", "borderline", "unknown", "ok")
STATE_OF_VERDICT: dict[Verdict, State] = {
    "fits": "ok",
    "borderline": "borderline",
    "unknown": "unknown",
    "exceeds": "exceeds",
}


def code_state(findings: Iterable[Finding], is_incomplete: bool) -> State:
    """The state of ``preflight/code``. `is_incomplete`: a changed file could not be analysed."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return "exceeds"
    if severities:
        return "borderline"
    return "unknown" if is_incomplete else "ok"


def memory_state(verdicts: Iterable[Verdict]) -> State:
    """The state of ``preflight/memory``: that of the worst launch config."""
    states = {STATE_OF_VERDICT[verdict] for verdict in verdicts}
    return next((state for state in _WORST_FIRST if state in states), "ok")


def conclusion(state: State, mode: Mode, config: Config) -> Conclusion:
    """What the check run concludes."""
    if state in {"ok", "overridden"}:
        return "success"
    if state == "skipped":
        return "skipped"
    if state == "failed":
        return config.on_failure
    return "failure" if state == "exceeds" and mode == "block" else "neutral"


def level(severity: Severity, mode: Mode) -> Level:
    """How loud an annotation is: under `advisory` never more than a notice."""
    if mode == "advisory" or severity is Severity.NOTE:
        return "notice"
    return "failure" if mode == "block" and severity is Severity.ERROR else "warning"
