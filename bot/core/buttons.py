"""The buttons of a check run: at most three, and only those that would do something.

GitHub shows them once a run is concluded. Pressing one is a command of the person who pressed it, with its rights.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from analyzer.findings import Finding
from bot.core.commands.grammar import Command
from bot.core.plan import CODE_CHECK, CheckAction, CheckOutcome

RERUN = CheckAction(label="Re-run", description="Review this commit once more", identifier="rerun")
FIX = CheckAction(label="Apply safe fixes", description="Commit them, or get them as a patch", identifier="fix")
FITS = CheckAction(label="What fits", description="The cheapest instances that would do", identifier="fits")
EXPLAIN = CheckAction(label="Explain", description="Why the rules behind this matter", identifier="explain")

_RULE_CELL = re.compile(r"\| (PF\d{3}) (?:error|warning|note) \|")
_MAX_EXPLAINED = 3


def with_buttons(checks: Iterable[CheckOutcome], findings: Collection[Finding]) -> tuple[CheckOutcome, ...]:
    """The checks of a review with their buttons."""
    return tuple(replace(check, actions=_actions(check, findings)) for check in checks)


def _actions(check: CheckOutcome, findings: Collection[Finding]) -> tuple[CheckAction, ...]:
    if check.state in {"ok", "skipped"}:
        return ()
    if check.state == "failed":
        return (RERUN,)
    if check.name == CODE_CHECK:
        mine = [finding for finding in findings if finding.rule != "PF501"]
        has_fix = any(finding.fix is not None and finding.fix.applicability == "safe" for finding in mine)
        return (RERUN, *([FIX] if has_fix else []), *([EXPLAIN] if mine else []))
    is_tight = check.state in {"exceeds", "borderline"}
    return (RERUN, *([FITS] if is_tight else []), *([EXPLAIN] if check.state == "exceeds" else []))


def command_of(button: str, check: str, summary: str) -> Command | None:
    """The command that a button stands for; None for `rerun`. `summary` is the run's, for the rules it lists."""
    if button in {"fix", "fits"}:
        return Command(name=button)
    if button == "explain":
        rules = list(dict.fromkeys(_RULE_CELL.findall(summary))) if check == CODE_CHECK else ["PF501"]
        return Command(name="explain", words=tuple(rules[:_MAX_EXPLAINED]))
    return None
