"""Imports resolved inside the tree."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping

import pytest

from analyzer.api import imported_paths
from analyzer.project import Project, imported_modules
from analyzer.reach import Reach
from analyzer.screen import may_matter
from analyzer.settings import Settings


class Texts:
    """Files in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def paths(self) -> Collection[str]:
        return self.files.keys()

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


TREE = frozenset(
    {"train.py", "utils.py", "pkg/__init__.py", "pkg/a.py", "pkg/b.py", "pkg/sub/__init__.py", "pkg/sub/c.py",
     "src/lib/__init__.py", "src/lib/x.py", "loose/one.py", "loose/two.py"}
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "path", "expected"),
    [
        ("import utils", "train.py", ["utils.py"]),
        ("import os, pkg.a as q, torch", "train.py", ["pkg/__init__.py", "pkg/a.py"]),
        ("from pkg import (\n  a,  # one\n  b as z,\n)", "train.py", ["pkg/__init__.py", "pkg/a.py", "pkg/b.py"]),
        ("from pkg import (\n  a,  # (one)\n  b,\n)", "train.py", ["pkg/__init__.py", "pkg/a.py", "pkg/b.py"]),
        ("from . import b", "pkg/a.py", ["pkg/__init__.py", "pkg/b.py"]),
        ("from .sub.c import f", "pkg/a.py", ["pkg/sub/__init__.py", "pkg/sub/c.py"]),
        ("from ..a import f", "pkg/sub/c.py", ["pkg/a.py"]),
        ("from lib.x import f", "train.py", ["src/lib/__init__.py", "src/lib/x.py"]),
        ("import two", "loose/one.py", ["loose/two.py"]),
        ("if x:\n    from utils \\\n        import *", "train.py", ["utils.py"]),
        ("from .... import a", "pkg/a.py", []),
        ("x = 1  # import utils", "train.py", []),
        ("import (((", "train.py", []),
        ("import train", "train.py", []),
    ],
)
def test_imports_lead_to_files(source: str, path: str, expected: list[str]) -> None:
    assert expected == imported_paths(source.encode(), path, TREE)


RUNS = b'import c\nif __name__ == "__main__":\n    c.train()'


@pytest.mark.parametrize(
    "source",
    [
        b"import " + b"a" * 200_000,
        b"from a import (\n" * 30_000,
        b"from" + b" " * 200_000 + b"x",
        b"from " + b"." * 200_000,
        b"from hydra import " * 30_000,
        b'"--a",' * 40_000,
    ],
    ids=lambda source: source[:16].decode().strip(),
)
def test_what_a_hostile_file_repeats_takes_no_longer_than_other_text(source: bytes) -> None:
    """Each of these took minutes or more: time went with the square of the length."""
    paths = ["a.py", "b.py", "c.py"]
    start = time.process_time()
    imported_paths(source, "a.py", paths)
    reach = Reach(paths, {"a.py": source, "b.py": RUNS, "c.py": b"x = 1"}.get, imported_modules, lambda *_: None)
    assert not reach.is_linked("a.py")
    assert not Settings(paths, {"a.py": source}.get).is_left_off("b")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"import torch", True),
        (b"loss.backward()", True),
        (b"import os\nprint(1)", False),
        (b'"""Says torch."""\nimport torch', True),
        (b'"""Says torch."""\nimport os  # not torch', False),
        (b'"""Runs torch."""\nfrom engine import main\nif __name__ == "__main__":\n    main()', True),
    ],
)
def test_the_screen(source: bytes, expected: bool) -> None:
    assert expected == may_matter(source)


def test_files_that_name_something_are_found_after_one_of_them_changed() -> None:
    words = re.compile(rb"no_grad")
    before = {"a.py": b"evaluate_all()  # no_grad\n", "b.py": b"evaluate()  # no_grad\n", "c.py": b"evaluate()\n"}
    project = Project(Texts(before))
    assert list(project.naming("evaluate", "main.py", words)) == ["b.py"]
    assert list(project.naming("evaluate", "b.py", words)) == []
    after = project.with_changed(Texts({**before, "b.py": b"pass\n"}), "b.py")
    assert list(after.naming("evaluate", "main.py", words)) == []
    again = after.with_changed(Texts({"b.py": b"pass\n", "c.py": b"no_grad(evaluate)\n"}), "c.py")
    assert list(again.naming("evaluate", "main.py", words)) == ["c.py"]
    assert project.journal.to_json() == [
        ["naming", "evaluate", "no_grad", 0, "main.py", [["b.py"], True]],
        ["naming", "evaluate", "no_grad", 0, "b.py", [[], True]],
    ]


def test_nothing_is_concluded_from_texts_that_were_not_read() -> None:
    files = Texts({"a.py": b"use_ema = False\n", "b.py": b"use_amp = True\n"})
    whole, part = Project(files), Project(files, has_all_texts=False)
    assert (whole.is_left_off("use_ema"), whole.is_left_on("use_amp")) == (True, True)
    for project in (part, part.with_changed(files, "a.py")):
        assert (project.is_left_off("use_ema"), project.is_left_on("use_amp")) == (False, False)


def test_importers_name_the_file_on_a_line_of_an_import() -> None:
    files = {
        "lib/a.py": b"x = 1\n",
        "one.py": b"from lib import a\n",
        "two.py": b"    import lib.a as a\n",
        "speaks.py": b"a = 1  # import lib.a\n",
        "other.py": b"from elsewhere import a\n",
    }
    project = Project(Texts(files))
    assert set(project.importers("a", "lib/a.py")) == {"one.py", "two.py"}
    changed = Texts({**files, "one.py": b"a = 2\n", "two.py": files["two.py"]})
    assert set(project.with_changed(changed, "one.py").importers("a", "lib/a.py")) == {"two.py"}
    changed = Texts({**files, "other.py": b"from lib.a import x\n"})
    assert set(project.with_changed(changed, "other.py").importers("a", "lib/a.py")) == {"one.py", "two.py", "other.py"}
    assert set(project.importers("a", "lib/a.py")) == {"one.py", "two.py"}


@pytest.mark.parametrize(
    ("texts", "is_alone"),
    [
        ({}, False),
        ({"run.sh": b"python train.py --lr 0.1\n"}, True),
        ({"run.sh": b"python train.py\n", "README.md": b"Multi-GPU: see below\n"}, False),
        ({"run.sh": b"python -m torch.distributed.launch train.py\n", "README.md": b"python train.py\n"}, False),
        ({"README.md": b"@inproceedings{x}\npython train.py\n"}, True),
        ({"README.md": b"torchrun train.py\n"}, False),
    ],
)
def test_texts_tell_whether_programs_run_alone(texts: dict[str, bytes], is_alone: bool) -> None:
    files = Texts({"train.py": b"import torch\n", **texts})
    assert Project(files).is_run_alone() is is_alone
    assert not Project(files, has_all_texts=False).is_run_alone()


def test_texts_tell_the_largest_number_of_a_setting() -> None:
    texts = {
        "a.yaml": b"accum: 1\nwidth: 2\n",
        "run.sh": b"python train.py --accum 1 --opts=width=16 --grad-steps 4\n",
        "train.py": b'parser.add_argument("--accum", type=int, default=1)\nparser.add_argument("--other", default=3)\n',
    }
    project = Project(Texts(texts))
    assert [project.largest(name) for name in ("accum", "width", "grad_steps", "other", "none")] == [1, 16, 4, 3, 0]
    assert Project(Texts(texts), has_all_texts=False).largest("width") == 0
