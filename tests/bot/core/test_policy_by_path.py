"""Modes, rules and exclusions by path, as the checks of a pull request show them."""

from __future__ import annotations

import json

import pytest

from bot.core.config import Config, load
from bot.core.plan_json import review_input_from_json, review_input_to_json
from bot.core.review import review
from tests.bot.core.test_review import ENGINES, given

BAD = "kept.append(loss)\n"
PATCHES = dict.fromkeys(("a.py", "lab/b.py"), f"@@ -0,0 +1 @@\n+{BAD[:-1]}")


def _config(text: str) -> Config:
    config, problems = load(text, "x.yml")
    assert problems == ()
    return config


@pytest.mark.parametrize(
    ("text", "conclusion", "levels"),
    [
        ("mode: {code: block}", "failure", {"a.py": "failure", "lab/b.py": "failure"}),
        ("mode: {code: block}\npaths: [{match: '**', mode: {code: warn}}]", "neutral", {"a.py": "warning"}),
        ("paths: [{match: lab/, mode: {code: block}}]", "failure", {"lab/b.py": "failure"}),
        ("paths: [{match: lab/, mode: {code: block}, rules: {severity: {PF101: note}}}]", "neutral", {}),
        ("mode: {code: block}\npaths: [{match: '**', rules: {ignore: [PF101]}}]", "success", {}),
        ("mode: {code: block}\nexclude: ['*.py']", "success", {}),
    ],
)
def test_a_check_fails_where_block_holds(text: str, conclusion: str, levels: dict[str, str]) -> None:
    plan = review(given(dict.fromkeys(PATCHES, BAD), {}, PATCHES, config=_config(text)), ENGINES)
    code = plan.checks[0]
    assert code.conclusion == conclusion
    shown = {item.path: item.level for item in code.annotations}
    assert {path: shown.get(path) for path in levels} == levels


def test_a_configuration_with_paths_travels_to_the_child() -> None:
    text = (
        "paths: [{match: lab/, mode: {code: block}, rules: {ignore: [PF101], severity: {PF102: note}}}]\nexclude: [x]"
    )
    asked = given({}, {}, {}, config=_config(text))
    document = json.loads(json.dumps(review_input_to_json(asked)))
    assert review_input_from_json(document).config == asked.config
