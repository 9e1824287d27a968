"""The rules there are: built in (one module each in `analyzer.rules`) and third-party (group ``preflight.rules``).

Nothing is registered: a rule is found because its file, or its distribution, is there.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
from importlib import metadata

import analyzer.rules
from analyzer.rules.base import Rule


@functools.cache
def rules() -> tuple[type[Rule], ...]:
    """Every rule, by code. Raises ValueError where two rules share a code, name or alias."""
    for module in pkgutil.iter_modules(analyzer.rules.__path__):
        importlib.import_module(f"analyzer.rules.{module.name}")
    found = [rule for rule in Rule.__subclasses__() if rule.__module__.startswith("analyzer.rules.")]
    found += [point.load() for point in metadata.entry_points(group="preflight.rules")]
    ordered = tuple(sorted(dict.fromkeys(found), key=lambda rule: rule.code))
    spoken: dict[str, type[Rule]] = {}
    for rule in ordered:
        for word in filter(None, (rule.code, rule.name, rule.alias)):
            if word in spoken:
                raise ValueError(f"{rule.__qualname__} and {spoken[word].__qualname__} are both called {word}")
            spoken[word] = rule
    return ordered


def codes() -> frozenset[str]:
    """The codes of all rules."""
    return frozenset(rule.code for rule in rules())


def aliases() -> dict[str, str]:
    """Alias to code (``TG001`` to ``PF101``)."""
    return {rule.alias: rule.code for rule in rules() if rule.alias}


def find(word: str) -> type[Rule] | None:
    """The rule with a code, alias or name, in any letter case."""
    wanted = word.casefold()
    for rule in rules():
        if wanted in {rule.code.casefold(), rule.name.casefold(), (rule.alias or rule.code).casefold()}:
            return rule
    return None


def nearest(word: str) -> list[str]:
    """The codes and names most like an unknown word."""
    names = [name for rule in rules() for name in (rule.code, rule.name, rule.alias) if name]
    return difflib.get_close_matches(word, names, n=3, cutoff=0.5) or difflib.get_close_matches(
        word.upper(), names, n=3, cutoff=0.5
    )


def page(rule: type[Rule]) -> str:
    """The documentation of a rule as Markdown: title, facts, then its docstring."""
    body = inspect.cleandoc(rule.__doc__ or "")  # Python 3.13 strips the indentation itself, older ones do not
    alias = f", alias {rule.alias}" if rule.alias else ""
    facts = f"Severity {rule.severity.value}{alias}, since {rule.since}."
    return f"# {rule.code} {rule.name}\n\n{facts}\n\n{body}\n"
