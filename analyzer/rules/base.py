"""What a rule is, and the report it writes to.

A rule is a short query over the events of a `Program`. It names the event it reports, the evidence and the message;
the confidence follows from the gaps on that evidence, and with it the mood of the message. No rule claims a confidence,
touches a syntax tree or reads a variable's name.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from analyzer.engine.trace import Gap, Site, Trace, confidence
from analyzer.findings import Confidence, Severity

if TYPE_CHECKING:
    from analyzer.engine.program import Program
    from analyzer.fixes.edits import SymbolicEdit

MOODS = {
    Confidence.CERTAIN: {"does": "{}", "will": "will {}", "is": "is"},
    Confidence.LIKELY: {"does": "appears to {}", "will": "will probably {}", "is": "appears to be"},
    Confidence.POSSIBLE: {"does": "may {}", "will": "may {}", "is": "may be"},
}
_VERB = re.compile(r"\{(does|will|is)(?: ([a-z ]+))?\}")


class Rule(ABC):
    """Base of the rules. The docstring of a rule is its page: a summary line, then the sections ``## Why it matters``,
    ``## Example``, ``## Use instead``, ``## When it stays quiet`` and ``## Fix safety``."""

    code: ClassVar[str]
    name: ClassVar[str]
    alias: ClassVar[str | None] = None
    severity: ClassVar[Severity]
    is_note_when_likely: ClassVar[bool] = False
    """Whether what a convention bridges is told as a note: at first sight of repositories that nobody had read, such
    findings of this rule were mostly no defects (``docs/decisions/0009``)."""
    since: ClassVar[str]

    @abstractmethod
    def check(self, program: Program, report: Report) -> None:
        """Report the defects among the events of `program`."""


@dataclass(frozen=True, slots=True)
class DraftFix:
    """A fix in terms of node numbers; positions are resolved when the finding is."""

    title: str
    applicability: Literal["safe", "unsafe"]
    edits: tuple[SymbolicEdit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A finding before its positions are known."""

    rule: type[Rule]
    site: Site
    severity: Severity
    confidence: Confidence
    message: str
    evidence: tuple[Trace, ...]
    fix: DraftFix | None = None


@dataclass(slots=True)
class Report:
    """Collects the drafts of one rule; the same place is reported once, by the surest evidence."""

    rule: type[Rule]
    drafts: dict[Site, Draft] = field(default_factory=dict)

    def __call__(
        self,
        site: Site,
        message: str,
        *,
        because: Sequence[Trace],
        gaps: Iterable[Gap] = (),
        severity: Severity | None = None,
        fix: DraftFix | None = None,
    ) -> None:
        """Report `site`. `because` are the chains of evidence, in the order to show them; `gaps` are gaps in the query
        itself. In `message`, ``{does keep}`` becomes "keeps", "appears to keep" or "may keep", ``{will keep}`` and
        ``{is}`` likewise, as the confidence deserves."""
        steps = tuple(distinct(because))
        if not steps:
            raise ValueError(f"{self.rule.code}: a finding needs evidence")
        found = [*gaps, *(step.gap for step in steps if step.gap)]
        sure = confidence(found)
        if Gap.USE in found or (self.rule.is_note_when_likely and sure is not Confidence.CERTAIN):
            severity = Severity.NOTE
        draft = Draft(
            rule=self.rule,
            site=site,
            severity=severity or self.rule.severity,
            confidence=sure,
            message=in_mood(message, sure),
            evidence=steps,
            fix=fix,
        )
        known = self.drafts.get(site)
        if known is None or _rank(draft) > _rank(known):
            self.drafts[site] = draft


def _rank(draft: Draft) -> tuple[int, int]:
    return draft.confidence.rank, draft.severity.rank


def distinct(chains: Iterable[Trace]) -> Iterable[Trace]:
    """The steps of several chains, each place and note once, in order."""
    seen: set[tuple[Site, str]] = set()
    for chain in chains:
        for step in chain.steps():
            key = (step.site, step.note)
            if key not in seen:
                seen.add(key)
                yield step


def in_mood(message: str, sure: Confidence) -> str:
    """Fill the verbs of a message in the mood that the confidence deserves."""

    def spoken(match: re.Match[str]) -> str:
        verb = match[2] or ""
        if match[1] == "does" and sure is Confidence.CERTAIN:
            verb = _third_person(verb)
        return MOODS[sure][match[1]].format(verb)

    return _VERB.sub(spoken, message)


def _third_person(words: str) -> str:
    """``copy the graph`` as it is said of somebody else: the first word changes."""
    verb, gap, rest = words.partition(" ")
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies{gap}{rest}"
    return f"{verb}{'es' if verb.endswith(('s', 'sh', 'ch', 'x', 'o')) else 's'}{gap}{rest}"
