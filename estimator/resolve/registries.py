"""Configurations that are Python functions of a registry (torchtitan's ``--module M --config NAME``), read as trees.

Only what such functions are made of is followed: calls with keywords, another function of the file, assignments to
what it returned, arithmetic of constants. Anything else that may touch the configuration makes it unread.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analyzer.api import Files
from estimator.launch.base import Arg
from estimator.launch.documents import Node, Plain

FILE = "config_registry.py"
CALLEE = "()"
"""The entry of a tree that holds the name of the call that makes it."""
_MAX_BYTES = 512 * 1024
_MAX_DEPTH = 12
_Tree = dict[str, "Node"]


class _Unread(Exception):
    """The function does something that is not followed."""


@dataclass(slots=True)
class _Module:
    path: str
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    names: dict[str, ast.expr] = field(default_factory=dict)


def configuration(files: Files, module: Arg, name: Arg) -> Node | None:
    """What the function `name` of the registry of `module` returns; None where it is not in the tree or not read."""
    for path in _places(files, module.text):
        source = files.read(path)
        found = _parsed(path, source) if source is not None and len(source) <= _MAX_BYTES else None
        if found is None or name.text not in found.functions:
            continue
        try:
            root = _Function(found, 0).returned(found.functions[name.text])
        except (_Unread, RecursionError):
            return None
        return _with_model(root, module.text) if isinstance(root.raw, dict) else None
    return None


def _places(files: Files, module: str) -> list[str]:
    """Registries whose folder is the module's, the library's own models first; else the only registry there is."""
    every = sorted(path for path in files.paths() if posixpath.basename(path) == FILE)
    folder = module.removesuffix(".config_registry").replace(".", "/")
    named = [path for path in every if f"/{posixpath.dirname(path)}".endswith(f"/{folder}")]
    return sorted(named, key=lambda path: ("/models/" not in path, path.count("/"))) or (
        every if len(every) == 1 else []
    )


def _parsed(path: str, source: bytes) -> _Module | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = _Module(path)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.functions[node.name] = node
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.names[node.targets[0].id] = node.value
    return found


def _with_model(root: Node, module: str) -> Node:
    """A flavor is a model together with the module it is registered in."""
    name = module.removesuffix(".config_registry").rsplit(".", 1)[-1]
    return Node(root.path, root.line, {**root.mapping(), "module": Node(root.path, root.line, Plain(name, ""))})


class _Function:
    """One function, statement by statement."""

    def __init__(self, module: _Module, depth: int) -> None:
        self.module = module
        self.depth = depth
        self.names: dict[str, Node] = {}

    def returned(self, node: ast.FunctionDef) -> Node:
        """What it returns. Raises `_Unread`."""
        if node.args.args or node.args.kwonlyargs or self.depth > _MAX_DEPTH:
            raise _Unread
        for statement in node.body:
            if isinstance(statement, ast.Return) and statement.value is not None:
                return self.value(statement.value)
            self.statement(statement)
        raise _Unread

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assert, ast.Pass)):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1:
                self.assign(targets[0], self.value(node.value))
                return
        raise _Unread  # a branch, a loop or a call that may change the configuration

    def assign(self, target: ast.expr, value: Node) -> None:
        keys: list[str] = []
        while isinstance(target, ast.Attribute):
            keys.insert(0, target.attr)
            target = target.value
        if not isinstance(target, ast.Name):
            raise _Unread
        if not keys:
            self.names[target.id] = value
            return
        held = self.names.get(target.id)
        if held is None or not isinstance(held.raw, dict):
            raise _Unread
        self.names[target.id] = _changed(held, keys, value)

    def value(self, node: ast.expr, depth: int = 0) -> Node:
        """An expression as a tree or a scalar; what is not followed is a word that begins with ``$``."""
        if depth > _MAX_DEPTH:
            raise _Unread
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id]
        if isinstance(node, ast.Name) and node.id in self.module.names:
            return self.value(self.module.names[node.id], depth + 1)
        if isinstance(node, ast.Call):
            return self.call(node, depth)
        if isinstance(node, (ast.List, ast.Tuple)):
            items = {str(index): self.value(item, depth + 1) for index, item in enumerate(node.elts)}
            made = [item.get(CALLEE) for item in items.values()]
            names = ",".join(name.text for name in made if name is not None)
            return self.node(node, {**items, CALLEE: self.node(node, Plain(names, ""))})
        if isinstance(node, ast.Attribute):
            held = self.value(node.value, depth + 1)
            inner = held.get(node.attr)
            if inner is not None:
                return inner
        return self.node(node, Plain(self.constant(node, depth), ""))

    def call(self, node: ast.Call, depth: int) -> Node:
        name = ast.unparse(node.func)
        if name in self.module.functions and not node.args and not node.keywords:
            return _Function(self.module, self.depth + 1).returned(self.module.functions[name])
        is_class = name.rpartition(".")[2][:1].isupper() or name in {"replace", "dataclasses.replace"}
        if not is_class and any(self.is_configuration(arg) for arg in node.args):
            raise _Unread  # a function may change what it is given
        if any(isinstance(arg, ast.Starred) for arg in node.args) or any(word.arg is None for word in node.keywords):
            return self.node(node, Plain(f"${name}(…)", ""))
        given: _Tree = {str(index): self.value(arg, depth + 1) for index, arg in enumerate(node.args)}
        given.update({word.arg: self.value(word.value, depth + 1) for word in node.keywords if word.arg is not None})
        if name in {"replace", "dataclasses.replace"} and isinstance(given["0"].raw, dict):
            return self.node(node, {**given.pop("0").mapping(), **given})
        return self.node(node, {**given, CALLEE: self.node(node, Plain(name, ""))})

    def is_configuration(self, node: ast.expr) -> bool:
        held = self.names.get(node.id) if isinstance(node, ast.Name) else None
        made = held.get(CALLEE) if held is not None else None
        return made is not None and made.text.endswith("Config")

    def constant(self, node: ast.expr, depth: int) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool)):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand, depth + 1).value
            return -value if isinstance(value, (int, float)) else f"${ast.unparse(node)}"
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, depth + 1).value, self.value(node.right, depth + 1).value
            if isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) < 2**40:
                return _computed(node.op, left, right)
        return "" if isinstance(node, ast.Constant) and node.value is None else f"${ast.unparse(node)[:60]}"

    def node(self, at: ast.expr, raw: Any) -> Node:
        return Node(self.module.path, at.lineno, raw)


def _computed(operator: ast.operator, left: int, right: int) -> int | str:
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.FloorDiv) and right:
        return left // right
    return f"${left} {type(operator).__name__} {right}"


def _changed(held: Node, keys: list[str], value: Node) -> Node:
    """The tree with one entry replaced, on a copy: a function that is called again starts afresh."""
    entries: Mapping[str, Node] = held.mapping()
    inner = entries.get(keys[0], Node(value.path, value.line, {}))
    new = value if len(keys) == 1 else _changed(inner, keys[1:], value)
    return Node(held.path, held.line, {**entries, keys[0]: new})
