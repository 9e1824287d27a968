"""Where a file of a tree leads: the files that its imports and strings mean, and so which files are of one program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from analyzer.programs import code, installs, is_python, scripts

_LOADS_BY_NAME = re.compile(
    rb"\b(?:import_module|__import__|iter_modules|walk_packages|exec_module|spec_from_file_location|run_module|run_path"
    rb"|execfile|load_source|instantiate|locate|get_class|get_method|_target_|LightningCLI|import_from_string"
    rb"|import_string|load_object|pydoc|hubconf|resolve_name|SourceFileLoader|_LazyModule|lazy_loader)\b"
    rb"|\bhydra\.utils\.call\b|\bfrom[ \t]+hydra(?:\.utils)?[ \t]+import\b[^\n]{0,400}\b(?:call|utils)\b"
)
_DOTTED_STRING = re.compile(
    rb"[\"'][ \t]*(?:[\w.-]{1,80}[ \t]*=[ \t]*)?([A-Za-z_]\w{0,80}(?:[.:]\w{1,80}){1,12})[ \t]*"
    rb"(?:\[[\w, ]{0,80}\])?[\"']"
)
"""A string that may name a module, or what is in one: ``"package.module"``, ``"name = package.module:function"``."""
_ENTRY_POINT = re.compile(rb"=[ \t]*[\"']?([A-Za-z_][\w.]{0,200}:\w{1,80})")
"""As ``setup.cfg`` writes it."""
_MAGIC_RUN = re.compile(rb"%run[ \t]+(?:-\w[ \t]+)*[\"']?([\w./-]+)")

Imports = Callable[[bytes], Iterable[tuple[str, int]]]
"""The modules that a text imports, dotted, each with its level."""
Resolve = Callable[[str, str, int], "str | None"]
"""The file of the tree that a module means, imported by a path with a level."""


class Leads:
    """Which file of a tree leads to which."""

    def __init__(
        self, paths: Collection[str], read: Callable[[str], bytes | None], imports: Imports, resolve: Resolve
    ) -> None:
        self.paths, self.read, self._imports, self._resolve = frozenset(paths), read, imports, resolve
        self.python = sorted(filter(is_python, paths))
        self.code = [*self.python, *scripts(paths)]
        self._by_name: dict[str, list[str]] = {}
        """The files by the last word of the modules that they are."""
        self._stems = {part for path in self.code for part in path.removesuffix(".py").split("/")}

    def text(self, path: str) -> bytes | None:
        """The code in a file; None where it cannot be read."""
        return code(path, self.read(path))

    def of(self, path: str, source: bytes) -> set[str]:
        """The files that a file imports; where an import leads nowhere, those that it may mean."""
        found: set[str] = set()
        for module, level in self._imports(source):
            parts = module.split(".")
            homes = [self._resolve(".".join(parts[:end]), path, level) for end in range(1, len(parts) + 1)]
            found.update(home for home in homes if home is not None)
            if not level and not any(homes):
                found |= self._named("/".join(parts)) | self._named("/".join(parts[:-1]))
        for stem in (match.decode() for match in _MAGIC_RUN.findall(source)):
            found |= self._named(posixpath.normpath(stem).removesuffix(".py").lstrip("./"))
        return found - {path}

    def _named(self, stem: str) -> set[str]:
        ends = (f"/{stem}.py", f"/{stem}/__init__.py")
        if not self._by_name:
            for path in self.python:
                *_, folder, name = ("", "", *path.split("/"))
                for end in {name.removesuffix(".py"), folder if name == "__init__.py" else ""}:
                    self._by_name.setdefault(end, []).append(path)
        near = self._by_name.get(stem.rpartition("/")[2], ()) if stem else ()
        return {path for path in near if f"/{path}".endswith(ends)}

    def in_strings(self, path: str, source: bytes) -> list[tuple[str, list[bytes]]]:
        """The files that strings of a text name, and the names in them."""
        return list(self._written(path, source, _DOTTED_STRING))

    def entry_points(self) -> list[tuple[str, list[bytes]]]:
        """The files that the tree's installation names, and the names of what is called in them."""
        found: list[tuple[str, list[bytes]]] = []
        for path in sorted(self.paths):
            if installs(path):
                pattern = _ENTRY_POINT if path.endswith("setup.cfg") else _DOTTED_STRING
                found += self._written(path, self.read(path) or b"", pattern)
        return found

    def _written(self, path: str, source: bytes, pattern: re.Pattern[bytes]) -> Iterator[tuple[str, list[bytes]]]:
        for said in dict.fromkeys(pattern.findall(source)):
            parts = re.split(r"[.:]", said.decode())
            if parts[0] not in self._stems or parts[-1] == "py":
                continue
            for end in range(len(parts), 0, -1):
                home = self._resolve(".".join(parts[:end]), path, 0)
                if home is not None and home != path:
                    yield home, [part.encode() for part in parts[end:]]
                    break

    def programs(self) -> dict[str, str]:
        """One file for each program, by the files that belong to it: those that imports join, in whatever direction.
        Empty where a file cannot be read, or modules are loaded by strings made at run time."""
        sources = {path: self.text(path) for path in self.code}
        if any(source is None or loads_by_name(source) for source in sources.values()):
            return {}
        joined = {path: path for path in self.code}

        def first(path: str) -> str:
            while joined[path] != path:
                joined[path] = path = joined[joined[path]]
            return path

        for path, source in sources.items():
            for other in self.of(path, source or b"") | self._under_own_name(source or b""):
                if other in joined:
                    joined[first(other)] = first(path)
        return {path: first(path) for path in self.code}

    def _under_own_name(self, source: bytes) -> set[str]:
        """The files that imports mean where the tree is a package itself, known by the name of its folder."""
        found: set[str] = set()
        for module, level in self._imports(source):
            first, *rest = module.split(".")
            if not level and rest and first != "torch":
                stems = ("/".join(rest[:end]) for end in range(1, len(rest) + 1))
                found.update(path for stem in stems for path in (f"{stem}.py", f"{stem}/__init__.py"))
        return found & self.paths


def loads_by_name(source: bytes) -> bool:
    """Whether code loads modules by strings that may be made when the program runs."""
    return _LOADS_BY_NAME.search(source) is not None


def followed(entries: Iterable[str], leads: dict[str, set[str]]) -> set[str]:
    """The files that are run or imported where some are run."""
    found: set[str] = set()
    todo = list(entries)
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += leads.get(path, ())
    return found


def is_package(path: str) -> bool:
    """Whether a file is what a package runs when it is imported."""
    return path.endswith("__init__.py")
