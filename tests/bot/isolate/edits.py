"""Random edits of a tree, each followed by a run that remembers the ones before and by a run that does not.

``python -m tests.bot.isolate.edits --checkouts DIR [--edits N] [--seed N]`` edits copies (in memory) of real trees.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from analyzer.api import Options
from analyzer.findings import Confidence
from bot.isolate import remembered

WORDS = (
    "no_grad", "backward", "zero_grad", "set_epoch", "set_grad_enabled", "save", "data", "Accelerator", "DataLoader",
    "state_dict", "seed", "torch", "eval", "train", "nprocs", "CUDAExtension", "add_argument", "accumulate", "volatile",
    "__main__", "getattr", "import_module",
)  # fmt: skip
_NAME = re.compile(r"(?:def|class) +(\w+)")
Texts = dict[str, bytes]


class Tree:
    """Files in memory."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self.texts = texts

    def paths(self) -> Collection[str]:
        return self.texts.keys()

    def read(self, path: str) -> bytes | None:
        return self.texts.get(path)


class Memory:
    """A store that counts."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.num_puts = 0

    def get(self, key: str) -> bytes | None:
        return self.entries.get(key)

    def put(self, key: str, entry: bytes) -> None:
        self.entries[key] = entry
        self.num_puts += 1


class Editor:
    """A tree that somebody works on."""

    def __init__(self, texts: Texts, seed: int) -> None:
        self.texts = dict(texts)
        self.first = dict(texts)
        self.random = random.Random(seed)
        self.options = Options()
        self.left_out: set[str] = set()

    @property
    def targets(self) -> list[str]:
        return sorted(path for path in self.texts if path not in self.left_out)

    def edit(self) -> str:
        """Change something; what it was, in words."""
        how = self.random.choices(
            [self.change, self.change_words, self.import_something, self.add, self.delete, self.move, self.configure,
             self.leave_out, self.restore],
            [8, 6, 4, 2, 2, 2, 1, 3, 2],
        )[0]  # fmt: skip
        return f"{how.__name__} {how()}"

    def any_path(self) -> str:
        return self.random.choice(sorted(self.texts))

    def change(self) -> str:
        """Lines are gone, doubled, swapped with another's or said to mean nothing."""
        path = self.any_path()
        lines = self.texts[path].split(b"\n")
        at, other = self.random.randrange(len(lines)), self.random.randrange(len(lines))
        kind = self.random.randrange(5)
        if kind == 0:
            del lines[at : at + self.random.randrange(1, 8)]
        elif kind == 1:
            lines[at:at] = lines[at : at + self.random.randrange(1, 8)]
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            lines[at] = b"# " + lines[at]
        else:
            lines.append(b"\ndef more_%d(model, loss):\n    model.eval()\n    return loss.backward()\n" % at)
        self.texts[path] = b"\n".join(lines)
        return f"{path} ({kind})"

    def change_words(self) -> str:
        """One word of a file, or of all, becomes another."""
        path = self.any_path()
        names = _NAME.findall(self.texts[path].decode("utf-8", "replace")) or ["x"]
        old, new = self.random.choice([*names, *WORDS]), self.random.choice([*names, *WORDS, "other"])
        for each in sorted(self.texts) if self.random.random() < 0.3 else [path]:
            self.texts[each] = re.sub(rb"\b%s\b" % old.encode(), new.encode(), self.texts[each])
        return f"{path}: {old} is {new}"

    def import_something(self) -> str:
        path, other = self.any_path(), self.any_path()
        module = other.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        names = _NAME.findall(self.texts[other].decode("utf-8", "replace")) or ["*"]
        line = self.random.choice([f"from {module} import {self.random.choice(names)}", f"import {module}"])
        self.texts[path] = line.encode() + b"\n" + self.texts[path]
        return f"{path}: {line}"

    def add(self) -> str:
        folder = self.any_path().rpartition("/")[0]
        path = f"{folder}/new_{self.random.randrange(99)}.py".lstrip("/")
        if self.random.random() < 0.4:
            path = f"{folder}/{self.random.choice(['torch', 'numpy', 'utils', '__init__'])}.py".lstrip("/")
        self.texts[path] = self.texts[self.any_path()]
        return path

    def delete(self) -> str:
        path = self.any_path()
        if len(self.texts) > 1:
            del self.texts[path]
        return path

    def move(self) -> str:
        """A file has the name of another one, or another folder."""
        path, other = self.any_path(), self.any_path()
        new = other if self.random.random() < 0.5 else f"moved/{path}"
        self.texts[new] = self.texts.pop(path)
        return f"{path} to {new}"

    def configure(self) -> str:
        self.options = self.random.choice(
            [Options(), Options(min_confidence=Confidence.POSSIBLE), Options(ignore=frozenset({"PF206"}))]
        )
        return str(self.options)

    def leave_out(self) -> str:
        path = self.any_path()
        self.left_out ^= {path}
        return path

    def restore(self) -> str:
        """Back to what it was in the beginning: a checkout of another branch."""
        path = self.random.choice(sorted(self.first))
        self.texts[path] = self.first[path]
        return path

    def said(self, store: Memory) -> str:
        """The report, as it is printed."""
        report = remembered.analyze(Tree(self.texts), self.targets, self.options, store)
        return json.dumps(report.to_json())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--edits", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=100, help="files of a tree")
    given = parser.parse_args(argv)
    problems = 0
    for root in sorted(given.checkouts.iterdir()):
        places = sorted(root.rglob("*.py"))[: given.most]
        texts = {place.relative_to(root).as_posix(): place.read_bytes() for place in places if place.is_file()}
        if not texts:
            continue
        editor, store, num_targets = Editor(texts, given.seed), Memory(), 0
        editor.said(store)
        before = store.num_puts
        for number in range(given.edits):
            what, fresh = editor.edit(), Memory()
            num_targets += len(editor.targets)
            if editor.said(store) != editor.said(fresh):
                problems += 1
                print(f"{root.name}, edit {number}: {what}: another report", flush=True)
        again = store.num_puts - before
        print(f"{root.name}: {given.edits} edits, {again} of {num_targets} analysed again", flush=True)
    print(f"{problems} problems")
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
