"""Paths of the tree as modules, and imports resolved inside it."""

from __future__ import annotations

from analyzer.api import Files


class Project:
    """The tree under analysis as importable modules."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._paths = frozenset(files.paths())

    def read(self, path: str) -> bytes | None:
        """The bytes of a file of the tree."""
        return self.files.read(path)

    def module_name(self, path: str) -> str:
        """The dotted name of a file."""
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def resolve(self, module: str, from_path: str, level: int) -> str | None:
        """The file that an import means, or None where it leads outside the tree."""
        folder = from_path.split("/")[:-1]
        parts = [part for part in module.split(".") if part]
        bases = [folder[: len(folder) - level + 1]] if level else [folder[:end] for end in range(len(folder), -1, -1)]
        if not level:
            bases += [["src"]]
        for base in bases:
            stem = "/".join([*base, *parts])
            for path in (f"{stem}.py", f"{stem}/__init__.py"):
                if path in self._paths:
                    return path
        return None
