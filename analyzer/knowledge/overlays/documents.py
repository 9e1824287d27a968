"""Configuration files that a program reads (``yaml.safe_load(open("run.yaml"))``), for callers that ask for values.

Rules hold for every configuration and see none. YAML is composed, never loaded; an alias costs what its text costs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import yaml

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import Site, start
from analyzer.engine.values import Const, External, Scalar, Unknown, Value, const

Function = Callable[[Calls, Args, int, State], Value]
DATA = "<data>"
"""Before the path of sites that stand for a line of a configuration file; `at` is the line."""
MAX_BYTES = 128 * 1024
MAX_DEPTH = 8
MAX_KEYS = 2000


def opened(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``open(path)``: the path stands for the file."""
    path = args.at(0, "file")
    return path if machine.wanted and isinstance(path, Const) and isinstance(path.value, str) else Scalar()


def _loader(name: str) -> Function:
    def loaded(machine: Calls, args: Args, at: int, state: State) -> Value:
        """What a YAML or JSON file of the tree holds; for rules, and for any other file, what the row says."""
        given = args.at(0) or args.keywords.get("stream")
        if machine.wanted and isinstance(given, Const) and isinstance(given.value, str):
            found = _document(machine, given.value, at, state)
            if found is not None:
                return found
        row = machine.knowledge.row(name)
        if row is not None:
            return machine.apply_row(row, name, None, args, at, state)
        return machine.call_unseen(External(name), args, at, state, f"`{name}` was not read")

    return loaded


def _document(machine: Calls, name: str, at: int, state: State) -> Value | None:
    for folder in (".", posixpath.dirname(machine.frame.path)):
        path = posixpath.normpath(posixpath.join(folder, name))
        source = machine.project.read(path) if not path.startswith(("../", "/")) else None
        if source is not None and len(source) <= MAX_BYTES:
            break
    else:
        return None
    if _is_deep(source):
        return None
    try:
        root = yaml.compose(source.decode("utf-8", "replace"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    return _value(machine, root, path, at, state, 0, [MAX_KEYS]) if root is not None else None


def _is_deep(source: bytes) -> bool:
    """The parser takes quadratic time over brackets in brackets."""
    depth = deepest = 0
    for char in source:
        depth += (char in b"[{") - (char in b"]}")
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH * 4


def _value(machine: Calls, node: yaml.Node, path: str, at: int, state: State, depth: int, left: list[int]) -> Value:
    line = node.start_mark.line + 1
    site = Site(f"{DATA}{path}", line)
    left[0] -= 1
    if depth > MAX_DEPTH or left[0] < 0:
        return Unknown("nested too deeply in its file", trace=start(site, "in a file"))
    if isinstance(node, yaml.MappingNode):
        ref = machine.create(("document", path, line, node.start_mark.column), at, "dict", "read from a file")
        machine.empty(ref, state)
        for key, inner in node.value:
            if isinstance(key, yaml.ScalarNode):
                value = _value(machine, inner, path, at, state, depth + 1, left)
                state.set((ref.obj, f"[{key.value!r}]"), value)
                state.set((ref.obj, str(key.value)), value)
        return ref
    if isinstance(node, yaml.SequenceNode):
        ref = machine.create(("document", path, line, node.start_mark.column), at, "list", "read from a file")
        machine.fill(
            ref, [_value(machine, inner, path, at, state, depth + 1, left) for inner in node.value[:16]], state
        )
        return ref
    return const(_scalar(node), start(site, f"{node.value}"[:60])) if isinstance(node, yaml.ScalarNode) else Scalar()


def _scalar(node: yaml.ScalarNode) -> object:
    kind, text = node.tag.rsplit(":", 1)[-1], str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in {"true", "yes", "on"}
    try:
        if kind == "int":
            return int(text.replace("_", ""), 0)
        return float(text.replace("_", "")) if kind == "float" else text
    except ValueError:
        return text


_LOADERS = (
    "yaml.safe_load",
    "yaml.load",
    "yaml.full_load",
    "yaml.unsafe_load",
    "json.load",
    "omegaconf.OmegaConf.load",
)
FUNCTIONS = {"builtins.open": opened, **{name: _loader(name) for name in _LOADERS}}
