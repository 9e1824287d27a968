"""The rules there are: built in (one module each in `analyzer.rules`) and third-party (group ``preflight.rules``).

Nothing is registered: a rule is found because its file, or its distribution, is there.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
import re

import analyzer.rules
from analyzer import extensions
from analyzer.rules.base import Rule


@functools.cache
def rules() -> tuple[type[Rule], ...]:
    """Every rule, by code. Raises ValueError where two of ours share a code, name or alias; an extension that clashes
    is left out (`analyzer.extensions`)."""
    for module in pkgutil.iter_modules(analyzer.rules.__path__):
        importlib.import_module(f"analyzer.rules.{module.name}")
    found = [rule for rule in Rule.__subclasses__() if rule.__module__.startswith("analyzer.rules.")]
    spoken: dict[str, type[Rule]] = {}
    for rule in sorted(dict.fromkeys(found), key=lambda rule: rule.code):
        _speak(rule, spoken)

    def added(thing: object) -> type[Rule]:
        rule = _extension(thing)
        _speak(rule, spoken)
        return rule

    found += extensions.loaded(extensions.RULES, added)
    return tuple(sorted(dict.fromkeys(found), key=lambda rule: rule.code))


def _speak(rule: type[Rule], spoken: dict[str, type[Rule]]) -> None:
    """Give a rule its words; none of them where one is taken."""
    words = [word for word in (rule.code, rule.name, rule.alias) if word]
    for word in words:
        if spoken.get(word, rule) is not rule:
            raise ValueError(f"{rule.__qualname__} and {spoken[word].__qualname__} are both called {word}")
    spoken.update(dict.fromkeys(words, rule))


def _extension(thing: object) -> type[Rule]:
    """An entry point's object as a rule. Raises TypeError or ValueError."""
    if not (isinstance(thing, type) and issubclass(thing, Rule)) or inspect.isabstract(thing):
        raise TypeError("not a class derived from Rule with a check of its own")
    missing = [name for name in ("code", "name", "severity", "since") if not hasattr(thing, name)]
    if missing:
        raise TypeError(f"the rule has no {', '.join(missing)}")
    if not re.fullmatch(r"[A-Z]{2,10}\d{2,5}", thing.code) or extensions.OURS.fullmatch(thing.code):
        raise ValueError(f"{thing.code!r}: a code is capitals and digits (ACME001), and PF and TG are taken")
    return thing


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
    note = ", a note where only likely" if rule.is_note_when_likely else ""
    facts = f"Severity {rule.severity.value}{note}{alias}, since {rule.since}."
    return f"# {rule.code} {rule.name}\n\n{facts}\n\n{body}\n"
