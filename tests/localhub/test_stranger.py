"""The hub knows nothing of Preflight: what it imports of the project is itself."""

from __future__ import annotations

import ast
from pathlib import Path

import bot.localhub

OURS = ("bot", "analyzer", "estimator", "preflight", "tests")


def test_the_hub_imports_nothing_of_the_project_but_itself() -> None:
    foreign = []
    for path in Path(bot.localhub.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.x" if node.level == 0 else "bot.localhub.x"]
            foreign += [
                f"{path.name}: {name}"
                for name in names
                if name.partition(".")[0] in OURS and not name.startswith("bot.localhub.")
            ]
    assert foreign == []
