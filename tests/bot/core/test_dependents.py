"""Which unchanged files a change can break."""

from __future__ import annotations

from bot.core.dependents import MAX_DEPENDENTS, dependents
from bot.core.review_input import MemoryTree


def tree(files: dict[str, str]) -> MemoryTree:
    return MemoryTree({path: text.encode() for path, text in files.items()})


def test_importers_are_found_through_others_nearest_first() -> None:
    found = tree(
        {
            "pkg/__init__.py": "",
            "pkg/loss.py": "import torch\n",
            "pkg/step.py": "from .loss import mse\n",
            "train.py": "from pkg.step import step\n",
            "other.py": "import json\n",
            "README.md": "import pkg.loss\n",
        }
    )
    assert dependents(found, {"pkg/loss.py"}) == ("pkg/step.py", "train.py")
    assert dependents(found, {"train.py"}) == ()
    assert dependents(found, {"pkg/loss.py", "train.py"}) == ("pkg/step.py",)


def test_circles_broken_notebooks_and_unread_files_do_no_harm() -> None:
    files = {"a.py": b"import b\n", "b.py": b"import a\n", "c.ipynb": b"{", "d.py": None}
    assert dependents(MemoryTree(files), {"a.py"}) == ("b.py",)


def test_what_everybody_imports_is_bounded() -> None:
    files = {"core.py": ""} | {f"user{number:03}.py": "import core\n" for number in range(90)}
    assert len(dependents(tree(files), {"core.py"})) == MAX_DEPENDENTS
