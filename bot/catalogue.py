"""Every rule there is: the analyzer's, and PF501, which the estimator finds. For documents, options and SARIF."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable
from importlib import resources

from analyzer.api import RuleFacts, rules
from analyzer.findings import Severity
from bot.errors import InputError


@functools.cache
def all_rules() -> tuple[RuleFacts, ...]:
    """Every rule, by code."""
    return tuple(sorted((*rules(), _memory_rule()), key=lambda rule: rule.code))


def _memory_rule() -> RuleFacts:
    """PF501, whose page is a file of the estimator. Its title line names the rule, the next paragraph sums it up."""
    page = resources.files("estimator").joinpath("pf501.md").read_text(encoding="utf-8")
    title, _, rest = page.partition("\n")
    code, name = title.removeprefix("#").split()
    return RuleFacts(
        code=code,
        name=name,
        alias="TG010",
        severity=Severity.ERROR,
        since="0.1",
        summary=rest.strip().partition("\n")[0],
        page=page,
    )


def find(word: str) -> RuleFacts:
    """The rule with this code, name or alias, in any letter case. Raises `InputError` with the nearest names."""
    wanted = word.strip().casefold()
    for rule in all_rules():
        if wanted in {item.casefold() for item in (rule.code, rule.name, rule.alias) if item}:
            return rule
    names = {item.casefold(): item for rule in all_rules() for item in (rule.code, rule.name, rule.alias) if item}
    near = [names[item] for item in _near(wanted, names)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`preflight rules` lists them"
    raise InputError(f"no rule {word.strip()!r}: {hint}")


def _near(wanted: str, names: Iterable[str]) -> list[str]:
    """Of a code only codes of its series: one that begins so, else one that resembles it."""
    is_code = re.fullmatch(r"[a-z]{2}\d+", wanted) is not None
    series = [name for name in names if name.startswith(wanted[:3]) and name[2:].isdigit()] if is_code else list(names)
    begun = [name for name in series if is_code and name.startswith(wanted)]
    return begun[:3] or difflib.get_close_matches(wanted, series, n=3, cutoff=0.5)


def codes(words: Iterable[str]) -> frozenset[str]:
    """The codes that comma-separated codes, names and aliases mean; a prefix such as ``PF1`` means all that start so.

    Raises `InputError`."""
    found: set[str] = set()
    for word in (part for item in words for part in item.split(",") if part.strip()):
        family = {rule.code for rule in all_rules() if rule.code.startswith(word.strip().upper())}
        found |= family or {find(word).code}
    return frozenset(found)
