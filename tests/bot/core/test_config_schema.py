"""The published schema and the loader say the same: what one takes, the other takes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from bot.core.config import MAX_INLINE, MODES, ON_FAILURE, load
from bot.core.config_schema import config_schema

ROOT = Path(__file__).parents[3]
SCHEMA = config_schema()
VALIDATOR = Draft202012Validator(SCHEMA)

_rules = st.sampled_from(["PF101", "graph-retention", "TG001", "PF2", "PF501"])
_codes = _rules | st.lists(_rules, max_size=3)
_severity = st.dictionaries(st.sampled_from(["PF101", "eval-without-no-grad"]), st.sampled_from(["error", "note"]))
_glob = st.sampled_from(["*.py", "a/**", "/x", "jobs/*.slurm"])
_globs = _glob | st.lists(_glob, max_size=3)
_mode = st.fixed_dictionaries({}, optional={"code": st.sampled_from(MODES), "memory": st.sampled_from(MODES)})
_path_rules = st.fixed_dictionaries({}, optional={"ignore": _codes, "severity": _severity})
_entry = st.fixed_dictionaries({"match": _globs.filter(bool)}, optional={"mode": _mode, "rules": _path_rules})
GOOD: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "mode": _mode,
        "rules": st.fixed_dictionaries({}, optional={"select": _codes, "ignore": _codes, "severity": _severity}),
        "min_confidence": st.sampled_from(["certain", "likely", "possible"]),
        "comments": st.fixed_dictionaries(
            {}, optional={"max_inline": st.integers(0, MAX_INLINE), "min_severity": st.sampled_from(["error", "note"])}
        ),
        "targets": st.dictionaries(st.sampled_from(["long", "*"]), st.sampled_from(["H100-80GB", "p4d.24xlarge"])),
        "default_targets": st.lists(st.sampled_from(["A100-40GB", "T4"]), max_size=2),
        "launch": _globs,
        "exclude": _globs,
        "paths": st.lists(_entry, max_size=3),
        "baseline": st.sampled_from(["a.json", ".github/b.json"]),
        "on_failure": st.sampled_from(ON_FAILURE),
    },
)
WRONG = st.sampled_from(["no such thing", "!", -1, 31, "/etc/passwd", "../up", ["PF999"], {"a": "b"}, [["x"]], [1, {}]])


def _both(document: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the schema takes it, and whether the loader does."""
    _, problems = load(yaml.safe_dump(document), "x.yml")
    return VALIDATOR.is_valid(document), not problems


def test_it_is_a_schema_and_the_published_one_is_fresh() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads((ROOT / "docs" / "preflight.schema.json").read_text(encoding="utf-8")) == SCHEMA


@settings(max_examples=60, deadline=None)
@given(GOOD)
def test_what_is_good_is_good_to_both(document: dict[str, Any]) -> None:
    assert _both(document) == (True, True), document


@settings(max_examples=120, deadline=None)
@given(GOOD, st.data())
def test_what_is_wrong_in_one_place_is_wrong_to_both(document: dict[str, Any], data: st.DataObject) -> None:
    """One value replaced by another kind of thing, or a key misspelt: never good to one and bad to the other."""
    broken = copy.deepcopy(document)
    places = list(_places(broken))
    if not places:
        return
    parent, key = data.draw(st.sampled_from(places))
    if data.draw(st.booleans()) and isinstance(key, str):
        parent[f"{key}x"] = parent.pop(key)
    else:
        parent[key] = data.draw(WRONG)
    schema, loader = _both(broken)
    assert schema == loader, broken


def _places(node: Any) -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from _places(value)


def test_the_example_of_the_page_is_good() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    examples = [part.partition("```")[0] for part in page.split("```yaml\n")[1:]]
    assert examples
    for text in examples:
        assert load(text, "x.yml")[1] == ()
        assert VALIDATOR.is_valid(yaml.safe_load(text)), list(VALIDATOR.iter_errors(yaml.safe_load(text)))
