"""Hydra configurations composed without running anything: defaults lists, groups, packages, overrides, interpolations.

The result is one tree of `Node`s that know their files. Custom resolvers, mandatory values (``???``) and what the
environment decides stay as they are written: whoever reads the value sees the ``$``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from analyzer.api import Files
from estimator.launch.base import Arg
from estimator.launch.documents import Node, Plain, UnreadableDocument, documents

MAX_FILES = 100
MAX_DEPTH = 12
MAX_KEYS = 5000
MANDATORY = "$MANDATORY"
_NO_MATTER = frozenset({"callbacks", "logger", "paths", "extras", "hydra", "hparams_search", "debug", "local"})
"""Groups that decide nothing about memory: one that is missing does not hide the others."""
_PACKAGE = re.compile(rb"^\s*#\s*@package\s+(\S+)", re.MULTILINE)
_OVERRIDE = re.compile(r"(\+{0,2}|~)([A-Za-z_][\w./\-]*)(?:@([\w.]+))?(?:=([\s\S]*))?")
_REFERENCE = re.compile(r"\$\{([.\w\[\]]+)\}")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:[^,{}]+,([^{}]*)\}")

Tree = dict[str, Node]


class NotComposed(Exception):
    """The configuration needs what the tree does not hold, or is too large."""


@dataclass(frozen=True, slots=True)
class Override:
    """One word of the command line: how (``+``, ``++``, ``~``), the key, and the value."""

    how: str
    key: str
    package: str
    value: Arg


def overrides_of(argv: Sequence[Arg]) -> list[Override]:
    """The overrides among the words of a command."""
    found = []
    for word in argv:
        match = _OVERRIDE.fullmatch(word.text)
        if match is not None and (match[4] is not None or match[1] == "~"):
            value = replace(word, text=(match[4] or "").strip("'\""))
            found.append(Override(match[1], match[2], match[3] or "", value))
    return found


@dataclass(slots=True)
class Composer:
    """One composition. `read` collects the files it was made from."""

    files: Files
    folders: tuple[str, ...]
    overrides: list[Override]
    read: set[str] = field(default_factory=set)
    choices: dict[str, Node | None] = field(default_factory=dict)
    parts: list[tuple[Node, str]] = field(default_factory=list)

    def compose(self, name: str) -> Node:
        """The configuration `name` with everything on top. Raises `NotComposed`."""
        self._choose()
        before: dict[str, Node | None] | None = None
        for _ in range(4):  # an override inside a chosen file may choose another one
            if before == self.choices:
                break
            before = dict(self.choices)
            self.parts, self.read = [], set()
            self._add("", name, "", 0)
        tree: Tree = {}
        for node, package in self.parts:
            _merge(_under(tree, package, node), node.mapping(), 0)
        for item in self.overrides:
            if not self._is_group(item.key):
                _set(tree, item)
        return Node(self.folders[0], 1, tree)

    # --- defaults lists ---------------------------------------------------------------------------------------

    def _choose(self) -> None:
        for item in self.overrides:
            if self._is_group(item.key):
                key = f"{item.key}@{item.package}" if item.package else item.key
                self.choices[f"!{key}"] = None if item.how == "~" else _scalar(item.value)

    def _is_group(self, key: str) -> bool:
        known = self.files.paths()
        wanted = [posixpath.join(folder, key) + "/" for folder in self.folders]
        return any(path.startswith(prefix) for prefix in wanted for path in known)

    def _add(self, group: str, name: str, package: str, depth: int, is_optional: bool = False) -> None:
        if depth > MAX_DEPTH or len(self.parts) > MAX_FILES:
            raise NotComposed("the defaults lists lead round in circles, or too far")
        found = self._file(group, name)
        if found is None:
            if is_optional or group.split("/")[0] in _NO_MATTER:
                return
            raise NotComposed(f"{posixpath.join(group, name)}.yaml is not in the repository")
        path, source = found
        try:
            root = next(iter(documents(path, source)), None)
        except UnreadableDocument as error:
            raise NotComposed(f"{path}: {error}") from None
        self.read.add(path)
        header = _PACKAGE.search(source[:400])
        if header is not None:
            package = _package(header[1].decode("utf-8", "replace"), group, package)
        defaults = root.get("defaults") if root is not None else None
        content = Node(
            path, 1, {k: v for k, v in root.mapping().items() if k != "defaults"} if root is not None else {}
        )
        entries = defaults.items() if defaults is not None and defaults.is_list else []
        is_placed = False
        for entry in entries[:MAX_FILES]:
            if entry.text == "_self_":
                self.parts.append((content, package))
                is_placed = True
            else:
                self._default(entry, group, package, depth)
        if not is_placed:
            self.parts.append((content, package))
        if depth == 0:
            self._appended()

    def _appended(self) -> None:
        """``+group=choice`` adds a group that no list names."""
        for item in self.overrides:
            if item.how in {"+", "++"} and self._is_group(item.key) and item.value.is_known:
                for name in _names(item.value.text):
                    self._add(item.key, name, item.package or item.key.replace("/", "."), 1)

    def _default(self, entry: Node, group: str, package: str, depth: int) -> None:
        mapping = entry.mapping()
        if not mapping:
            name = entry.text
            if name:
                inner, _, last = name.rpartition("/")
                base = inner.lstrip("/") if name.startswith("/") else posixpath.join(group, inner)
                self._add(base, last, package if not inner else _joined(package, inner, name), depth + 1)
            return
        key, choice = next(iter(mapping.items()))
        words = key.split()
        named, _, at = words[-1].partition("@")
        path = named.lstrip("/") if named.startswith("/") else posixpath.join(group, named)
        lookup = f"{path}@{at}" if at else path
        if "override" in words:
            self.choices[lookup] = choice
            return
        chosen = self.choices.get(f"!{lookup}", self.choices.get(lookup, choice))
        if chosen is None or (not chosen.is_list and chosen.value is None):
            return
        place = _joined(package, at, at) if at else path.replace("/", ".") if named.startswith("/") else _joined(
            package if group else "", named, named)  # fmt: skip
        for name in _chosen(chosen):
            if "${" in name or name == "???":
                raise NotComposed(f"{path} is chosen when it runs ({name})")
            self._add(path, name, place, depth + 1, is_optional="optional" in words)

    def _file(self, group: str, name: str) -> tuple[str, bytes] | None:
        name = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        for folder in self.folders:
            path = posixpath.normpath(posixpath.join(folder, group, name))
            if not path.startswith(("../", "/")) and path in self.files.paths():
                source = self.files.read(path)
                if source is not None:
                    return path, source
        return None


def _chosen(node: Node) -> list[str]:
    return [item.text for item in node.items() if item.text] if node.is_list else _names(node.text) if node.text else []


def _names(text: str) -> list[str]:
    inner = text.strip()
    return [part.strip() for part in inner.strip("[]").split(",") if part.strip()] if inner[:1] == "[" else [inner]


def _package(header: str, group: str, current: str) -> str:
    if header == "_global_":
        return ""
    return group.replace("/", ".") if header == "_group_" else header.removeprefix("_global_.")


def _joined(package: str, inner: str, name: str) -> str:
    """A package inside another; from the root where it is written so."""
    if inner == "_global_" or inner.startswith("_global_."):
        return inner.removeprefix("_global_").lstrip(".")
    inner = inner.strip("/").replace("/", ".")
    return inner if name.startswith("/") or not package else f"{package}.{inner}"


# --- trees --------------------------------------------------------------------------------------------------------


def _under(tree: Tree, package: str, node: Node) -> Tree:
    for part in [part for part in package.split(".") if part][:MAX_DEPTH]:
        inner = tree.get(part)
        if inner is None or not isinstance(inner.raw, dict):
            inner = Node(node.path, node.line, {})
            tree[part] = inner
        tree = inner.raw
    return tree


def _merge(tree: Tree, new: Tree, depth: int) -> None:
    """Mappings merge, everything else is replaced."""
    if depth > MAX_DEPTH or len(tree) + len(new) > MAX_KEYS:
        raise NotComposed("nested too deeply, or too many keys")
    for key, node in new.items():
        inner = node.mapping()
        if not inner:
            tree[key] = node
            continue
        before = tree.get(key)
        if before is None or not isinstance(before.raw, dict):
            before = Node(node.path, node.line, {})
            tree[key] = before
        _merge(before.raw, inner, depth + 1)


def _set(tree: Tree, item: Override) -> None:
    *parents, last = item.key.split(".")
    place = _under(tree, ".".join(parents), _scalar(item.value))
    if item.how == "~":
        place.pop(last, None)
    else:
        place[last] = _scalar(item.value)


def _scalar(arg: Arg) -> Node:
    """A word of the command line as a value."""
    text = arg.text
    value: object = text
    if text.lower() in {"true", "false"}:
        value = text.lower() == "true"
    elif re.fullmatch(r"-?\d{1,12}", text):
        value = int(text)
    elif text.lower() in {"null", "none", "~"}:
        value = None
    elif text.startswith("[") and text.endswith("]"):
        value = [part.strip() for part in text[1:-1].split(",") if part.strip()]
    return Node(arg.path, arg.line, Plain(value, ""))


def resolved(root: Node, node: Node, depth: int = 0) -> Node:
    """A value with its interpolations replaced where they name another value of the tree."""
    text = node.text
    if text == "???":
        return Node(node.path, node.line, Plain(MANDATORY, ""))
    whole = _REFERENCE.fullmatch(text)
    if whole is not None and depth < MAX_DEPTH and not whole[1].startswith("."):
        target = root.get(whole[1])
        return resolved(root, target, depth + 1) if target is not None else node
    environment = _ENVIRONMENT.fullmatch(text)
    if environment is not None:
        return _scalar(Arg(environment[1].strip().strip("'\""), node.path, node.line))
    return node


def leaves(node: Node, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Node]]:
    """Every value with its dotted key."""
    for key, inner in node.mapping().items():
        name = f"{prefix}{key}"
        if inner.mapping() and depth < MAX_DEPTH:
            yield from leaves(inner, f"{name}.", depth + 1)
        else:
            yield name, inner
