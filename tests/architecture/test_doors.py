"""What the packages promise each other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from analyzer import catalogue

SECTIONS = ("## Why it matters", "## Example", "## Use instead", "## When it stays quiet", "## Fix safety")


@pytest.mark.parametrize(
    "module", ["analyzer.api", "analyzer.findings", "analyzer.nesting", "analyzer.screen", "bot.cli.main"]
)
def test_the_door_costs_no_libcst(module: str) -> None:
    code = f"import sys, {module}; sys.exit('libcst' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0


def test_codes_names_and_aliases_are_distinct() -> None:
    words = [word for rule in catalogue.rules() for word in (rule.code, rule.name, rule.alias) if word]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("rule", catalogue.rules(), ids=lambda rule: rule.code)
def test_a_rule_documents_itself(rule: type) -> None:
    assert [section for section in SECTIONS if section not in (rule.__doc__ or "")] == []
