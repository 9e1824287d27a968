"""Options of ``HfArgumentParser`` scripts: each is a field of a dataclass we know (``TrainingArguments``).

argparse is followed by the analyzer itself; here the options have no definition in the script to follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analyzer.api import Argument, Known
from analyzer.api import Origin as Place
from estimator.launch.base import Arg
from estimator.resolve.frameworks import Facts, not_filled, table, to_origin, translate
from estimator.sourced import Origin, Sourced, Unknown

_TRAINING = "transformers.TrainingArguments"
_LEAST_RANK = 9


def options(argv: Sequence[Arg]) -> Iterator[tuple[str, Arg]]:
    """``--name value``, ``--name=value`` and bare ``--name`` (true), named with underscores, in order."""
    index = 0
    while index < len(argv):
        word = argv[index]
        index += 1
        if not word.text.startswith("--"):
            continue
        name, has_value, inline = word.text[2:].partition("=")
        value = Arg(inline, word.path, word.line, word.unknown, word.name)
        if not has_value:
            if index < len(argv) and not argv[index].text.startswith("--"):
                value = argv[index]
                index += 1
            else:
                value = Arg("true", word.path, word.line)
        yield name.replace("-", "_"), value


def add_hf_options(
    facts: Facts, argv: Sequence[Arg], declared: Mapping[str, tuple[Argument, ...]] | None = None
) -> None:
    """Add what the options say; for those that are not given, the default that a dataclass of the script `declared`
    (a subclass of `TrainingArguments` may), else that of `TrainingArguments`."""
    given = dict(options(argv))
    for rule in _rules():
        name = next((name for name in rule["names"] if name in given), None)
        if name is not None:
            facts.found.pop(rule["field"], None)
            for value in _translated(rule, name, given[name]):
                facts.add(rule["field"], value)
                _add_bound(facts, rule, name, value.origin)
            continue
        own = next((declared[name] for name in rule["names"] if name in declared), ()) if declared else ()
        if facts.candidates(rule["field"]):
            continue
        declared_values = [said for item in own if (said := translate(rule, item)) is not None]
        for said in declared_values:
            facts.add(rule["field"], said)
            _add_bound(facts, rule, rule["names"][0], said.origin)
        if declared_values:
            continue
        if "default" in rule:
            place = Origin(f"default of TrainingArguments: {rule['default']}")
            facts.add(rule["field"], Sourced(rule["default"], to_origin(own[0].origin) if own else place))


def _add_bound(facts: Facts, rule: Mapping[str, Any], name: str, place: Origin) -> None:
    """A length that samples need not have, where no call says better whether they do."""
    if rule.get("is_bound"):
        facts.add("packing", Sourced(False, not_filled(name, place)), _LEAST_RANK)


def _rules() -> list[Mapping[str, Any]]:
    training = next(row for row in table()["callee"] if _TRAINING in row["names"])
    return [*training["arguments"], *table()["hf_options"]]


def _translated(rule: Mapping[str, Any], name: str, arg: Arg) -> list[Sourced[Any]]:
    shown = f"--{name} {arg.text}"
    if arg.unknown:
        return [Sourced(Unknown(arg.unknown), arg.origin(shown))]
    value = translate(rule, Known(_literal(arg.text), Place(arg.path, arg.line, arg.origin(shown).text)))
    return [value] if value is not None else []


def _literal(text: str) -> int | str | bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return int(text) if text.isdigit() and len(text) < 12 else text
