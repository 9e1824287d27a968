"""Whatever a configuration holds, it is read: a head branch's is, for the preview, and anybody can write that."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.config import CONFIG_PATHS, Config, load
from bot.core.plan_json import config_from_json, config_to_json

_SETTINGS = ["mode", "code", "memory", "rules", "select", "ignore", "severity", "comments", "max_inline", "targets"]
_SETTINGS += ["default_targets", "launch", "exclude", "paths", "match", "baseline", "on_failure", "min_confidence"]
_WORDS = st.sampled_from([*_SETTINGS, "block", "PF101", "*", "**/[", "!", "", "0", "-1", "~", "null", "true"])
_TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | _WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS | st.text(max_size=4), inner, max_size=5),
    max_leaves=25,
)
_SOUP = st.lists(
    _WORDS | st.sampled_from(list(":-[]{},#&*!|>'\"%@`\n \t\x00\x85\u2028\ud7ff\U0001f600=.")), max_size=60
).map("".join)


def _reads(text: str, path: str) -> None:
    config, problems = load(text, path)
    assert config_from_json(json.loads(json.dumps(config_to_json(config)))) == config
    ends = sum(map(text.count, "\n\r\x85\u2028\u2029"))  # what YAML ends a line at
    assert all(0 <= problem.line <= ends + 2 for problem in problems)
    for where in ("a.py", "research/x/y.slurm", ""):
        config.mode("code", where)
        config.ignores("PF101", where)
        config.severity("PF101", where)
        config.looks_at_launch(where)
    load(text, path, Config(code="block"))


@settings(max_examples=150, deadline=None)
@given(_TREES, st.sampled_from(CONFIG_PATHS[:2]))
def test_any_document_is_read(tree: Any, path: str) -> None:
    _reads(yaml.safe_dump(tree, allow_unicode=True), path)


@settings(max_examples=150, deadline=None)
@given(_SOUP | st.text(max_size=60), st.sampled_from(CONFIG_PATHS))
def test_any_text_is_read(text: str, path: str) -> None:
    _reads(text, path)
    _reads(f"[tool.preflight]\n{text}", "pyproject.toml")
