"""What the packages promise each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from analyzer import catalogue
from bot.catalogue import all_rules, codes, find
from bot.errors import InputError

SECTIONS = ("## Why it matters", "## Example", "## Use instead", "## When it stays quiet", "## Fix safety")
CASES = Path(__file__).parent.parent / "cases"


@pytest.mark.parametrize(
    "module",
    ["analyzer.api", "analyzer.findings", "analyzer.nesting", "estimator.api", "bot.cli.main", "bot.cli.check"],
)
def test_the_door_costs_neither_libcst_nor_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit(str({{'libcst', 'torch', 'flask', 'github'}} & sys.modules.keys() or ''))"
    done = subprocess.run([sys.executable, "-I", "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_codes_names_and_aliases_are_distinct() -> None:
    words = [word for rule in all_rules() for word in (rule.code, rule.name, rule.alias) if word]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("rule", catalogue.rules(), ids=lambda rule: rule.code)
def test_a_rule_documents_itself(rule: type) -> None:
    assert [section for section in SECTIONS if section not in (rule.__doc__ or "")] == []


@pytest.mark.parametrize("code", [rule.code for rule in catalogue.rules()])
def test_a_rule_has_cases(code: str) -> None:
    assert list((CASES / code).glob("*.md"))


def test_rules_are_found_by_code_name_and_alias() -> None:
    assert {find(word).code for word in ("PF101", "pf101", "TG001", "graph-retention")} == {"PF101"}
    assert codes(["PF1,double-softmax", "TG003"]) >= {"PF101", "PF102", "PF204", "PF201"}
    assert codes([]) == codes([" , "]) == frozenset()
    with pytest.raises(InputError, match=r"no rule 'retention-graph': did you mean .*graph-retention"):
        find("retention-graph")
