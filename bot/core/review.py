"""One pull request reviewed, as a function: `ReviewInput` -> `Plan`. No I/O, no clock, the same answer each time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from analyzer.findings import Finding, Severity
from bot.core.buttons import with_buttons
from bot.core.config import CONFIG_PATHS, Config, load_bytes
from bot.core.config_text import Problem
from bot.core.details import details
from bot.core.examine import Code, Engines, Failed, Memory, examine_code, examine_memory
from bot.core.launch_states import states_marker
from bot.core.ledger import Ledger, Override, reviewed
from bot.core.placing import Placed, place
from bot.core.plan import CHECK_NAMES, CODE_CHECK, MEMORY_CHECK, Annotation, CheckOutcome, Plan
from bot.core.policy import STATE_OF_VERDICT, code_state, conclusion, level, memory_state
from bot.core.preview import Preview, merged_config, preview
from bot.core.review_input import MemoryTree, ReviewInput
from bot.render import limits
from bot.render.checks import annotation, code_texts, failed_texts, memory_texts
from bot.render.decisions import override_text, override_title
from bot.render.markdown import Links
from bot.render.preview import preview_text
from bot.render.summary import review_body, summary_body

log = logging.getLogger(__name__)

__all__ = ["Engines", "MemoryTree", "ReviewInput", "review"]


def review(given: ReviewInput, engines: Engines | None = None) -> Plan:
    """Everything GitHub should show for the pull request at its head."""
    if given.snapshot.is_draft:
        return _skipped(given, "Draft: Preflight reviews when it is ready")
    links = _links(given)
    problems = (*given.config_problems, *_head_config_problems(given))
    code, memory, placed, plain_checks = _look(given, engines or Engines(), problems, links)
    comments = tuple(item.comment for item in placed if item.comment)
    previewed = _preview(given, engines or Engines(), (placed, plain_checks), links)
    shown_preview = preview_text(previewed, given.snapshot.base_ref) if previewed else ""
    checks = with_buttons(
        _with_preview(plain_checks, shown_preview),
        [item.finding for item in placed if not item.is_silenced],
    )
    after = _ledger_after(given, code, memory, placed)
    impacts = memory.impacts if isinstance(memory, Memory) else ()
    suppressed = code.suppressed if isinstance(code, Code) else ()
    return Plan(
        head_sha=given.snapshot.head_sha,
        checks=checks,
        comments=comments,
        review_body=review_body(placed) if comments else "",
        summary=summary_body(
            placed,
            impacts,
            suppressed,
            given.snapshot,
            links,
            after,
            shown_preview if previewed and previewed.has_effect else "",
        ),
        standing=tuple(item.fingerprint for item in placed),
        posted=after.posted,
        details=details(given, checks, code, memory, placed, problems),
    )


_Seen = tuple[Sequence[Placed], tuple[CheckOutcome, CheckOutcome]]


def _look(
    given: ReviewInput, doors: Engines, problems: tuple[Problem, ...], links: Links
) -> tuple[Code | Failed, Memory | Failed, tuple[Placed, ...], tuple[CheckOutcome, CheckOutcome]]:
    """Both engines' answers, where each finding is said, and the checks, with the configuration of `given`."""
    code, memory = examine_code(given, doors), examine_memory(given, doors)
    placed = place(given, (*_findings(code), *_findings(memory)), links)
    code = _heard(code, placed)
    return (
        code,
        memory,
        placed,
        (_code_check(given, code, placed, problems, links), _memory_check(given, memory, placed, links)),
    )


def _preview(given: ReviewInput, doors: Engines, seen: _Seen, links: Links) -> Preview | None:
    """What would change with the configuration that the pull request brings; None where it brings none."""
    try:
        then = merged_config(given)
        if then is None:
            return None
        _, _, placed, checks = _look(replace(given, config=then), doors, (), links)
        return preview(given, then, (_heard_findings(seen[0]), seen[1]), (_heard_findings(placed), checks))
    except Exception:  # job boundary: a preview is a courtesy, the review must not be lost to it
        log.exception("the preview of the configuration failed")
        return None


def _heard_findings(placed: Iterable[Placed]) -> list[Finding]:
    return [item.finding for item in placed if not item.is_silenced]


def _with_preview(checks: tuple[CheckOutcome, CheckOutcome], text: str) -> tuple[CheckOutcome, CheckOutcome]:
    code, memory = checks
    return (replace(code, summary=limits.check_text(f"{code.summary}\n\n{text}")), memory) if text else checks


def _skipped(given: ReviewInput, why: str) -> Plan:
    checks = tuple(
        CheckOutcome(name=name, conclusion="skipped", state="skipped", title=why, summary=why) for name in CHECK_NAMES
    )
    return Plan(head_sha=given.snapshot.head_sha, checks=checks)


def _links(given: ReviewInput) -> Links:
    snapshot = given.snapshot
    return Links(given.web_url, snapshot.full_name, snapshot.head_sha, has_page=snapshot.number > 0)


def _findings(result: Code | Memory | Failed) -> tuple[Finding, ...]:
    return () if isinstance(result, Failed) else result.findings


def _heard(code: Code | Failed, placed: Iterable[Placed]) -> Code | Failed:
    """Without what people dismissed or ignore here: it neither counts nor is listed among the findings."""
    if isinstance(code, Failed):
        return code
    silenced = {item.finding for item in placed if item.is_silenced}
    return replace(code, findings=tuple(item for item in code.findings if item not in silenced))


def _ledger_after(given: ReviewInput, code: Code | Failed, memory: Memory | Failed, placed: Iterable[Placed]) -> Ledger:
    """The ledger with what this review saw. Where nobody looked nothing is called fixed."""
    head = given.snapshot.head_sha
    unseen = code.unseen if isinstance(code, Code) else ()
    rules = [*(("*",) if isinstance(code, Failed) else ()), *(("PF501",) if isinstance(memory, Failed) else ())]
    if given.snapshot.is_cut:
        rules = ["*", "PF501"]
    said = [item.as_posted(head) for item in placed]
    excused = {(item.rule, item.path) for item in code.suppressed} if isinstance(code, Code) else frozenset()
    return reviewed(given.ledger, said, head, unseen=unseen, unseen_rules=rules, excused=excused)


def _head_config_problems(given: ReviewInput) -> tuple[Problem, ...]:
    """What is wrong with a configuration that the change brings: it does not act before it is merged."""
    found: list[Problem] = []
    for file in given.snapshot.changed_files:
        if file.path in CONFIG_PATHS and file.status != "removed":
            raw = given.head.read(file.path)
            found += load_bytes(raw, file.path)[1] if raw is not None else ()
    return tuple(problem for problem in found if problem not in given.config_problems)


def _code_check(
    given: ReviewInput, code: Code | Failed, placed: Iterable[Placed], problems: Iterable[Problem], links: Links
) -> CheckOutcome:
    config = given.config
    if isinstance(code, Failed):
        title, summary = failed_texts("The analysis", code.what)
        end = conclusion("failed", config.code, config)
        return CheckOutcome(name=CODE_CHECK, conclusion=end, state="failed", title=title, summary=summary)
    mine = [item for item in placed if item.finding in code.findings]  # without those that people silenced
    state = code_state(code.findings, is_incomplete=bool(code.skipped) or given.snapshot.is_cut)
    title, summary, text = code_texts(code, mine, tuple(problems), given, links)
    return CheckOutcome(
        name=CODE_CHECK,
        conclusion=conclusion(state, config.strictest("code", _bad(code.findings)), config),
        state=state,
        title=limits.title(title),
        summary=limits.check_text(summary),
        text=limits.check_text(text),
        annotations=_annotations(mine, "code", config),
    )


def _memory_check(given: ReviewInput, memory: Memory | Failed, placed: Iterable[Placed], links: Links) -> CheckOutcome:
    config = given.config
    override = given.ledger.override("memory", given.snapshot.head_sha)
    if isinstance(memory, Failed):
        title, summary = failed_texts("The memory estimate", memory.what)
        end = conclusion("failed", config.memory, config)
        outcome = CheckOutcome(name=MEMORY_CHECK, conclusion=end, state="failed", title=title, summary=summary)
        return _overridden(outcome, override) if override else outcome
    mine = [item for item in placed if item.finding in memory.findings]
    state = memory_state(impact.verdict for impact in memory.impacts if impact.head is not None)
    too_large = [impact.path for impact in memory.impacts if impact.verdict == "exceeds"]
    title, summary, text = memory_texts(memory.impacts, memory.notes, links)
    moved = [impact for impact in memory.impacts if impact.head is not None]
    marker = states_marker((impact.path, STATE_OF_VERDICT[impact.verdict]) for impact in moved)
    outcome = CheckOutcome(
        name=MEMORY_CHECK,
        conclusion=conclusion(state, config.strictest("memory", too_large), config),
        state=state,
        title=limits.title(title),
        summary=limits.check_text(summary),
        text=limits.check_text(f"{marker}\n\n{text}"),
        annotations=_annotations(mine, "memory", config),
    )
    return _overridden(outcome, override) if override is not None and state != "ok" else outcome


def _overridden(outcome: CheckOutcome, override: Override) -> CheckOutcome:
    """The check as somebody lets it pass: who and why first, and nothing as loud as a failure."""
    return replace(
        outcome,
        conclusion="success",
        state="overridden",
        title=limits.title(override_title(override, outcome.title)),
        summary=limits.check_text(f"{override_text(override)}\n\n{outcome.summary}"),
        annotations=tuple(replace(note, level="notice") for note in outcome.annotations),
    )


def _bad(findings: Iterable[Finding]) -> list[str]:
    """The paths of what may fail the check."""
    return [finding.path for finding in findings if finding.severity is Severity.ERROR]


def _annotations(placed: Iterable[Placed], check: Literal["code", "memory"], config: Config) -> tuple[Annotation, ...]:
    """Under `advisory` only what has no comment; otherwise everything, as loud as the mode allows."""
    modes = [(item, config.mode(check, item.finding.path)) for item in placed]
    return tuple(
        annotation(item.finding, level(item.finding.severity, mode))
        for item, mode in modes
        if not item.is_silenced and (mode != "advisory" or item.where not in {"comment", "said before"})
    )
