"""Whether a function stops at a name that nothing defines: what it holds is true of its text, and never happens.

Only names that are read whenever a place is reached count: in the statements and tests of the blocks around it. A star
import, ``exec`` and their kind may define anything, and so may a notebook's magics. A name may also stand where no
statement binds it: a type parameter (``def f[T]``), an alias (``type T = …``), or what a file puts into the module of
another one, or among the names that are always there (``builtins.log = …``).
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator

from analyzer.engine.program import Program
from analyzer.engine.trace import Site, Trace, start
from analyzer.project import is_imported
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import assigned_names, every, of_type, target_names, walk

_ALWAYS = frozenset(dir(builtins)) | {
    "__file__", "__path__", "__class__", "xrange", "unicode", "raw_input", "basestring", "long", "reduce", "unichr",
    "file", "reload", "execfile", "cmp", "buffer", "apply", "intern", "WindowsError", "profile", "reveal_type",
}  # fmt: skip
"""Names that need no definition: of Python 3 and 2, and of tools that put one there."""
_DEFINING = frozenset({"exec", "globals", "locals", "vars", "execfile", "setattr"})


def why_undefined(program: Program, site: Site) -> Trace | None:
    """The step of evidence that says so, in a tree whose files belong together: a file alone may be a part of one."""
    found = _undefined(program, site)
    if found is None or not program.project.is_linked(site.path):
        return None
    at, name = found
    if _is_type(program.project.read(site.path) or b"", name) or _is_put(program, site.path, name):
        return None
    return start(at, f"nothing defines `{name}`: the function stops here")


def _undefined(program: Program, site: Site) -> tuple[Site, str] | None:
    """The first name, read whenever a place is reached, that neither its function nor its file defines."""
    unit = program.unit(site.path)
    if unit is None or not site.path.endswith(".py"):
        return None
    around = _functions_around(unit, site.at)
    known = _defined(unit)
    if not around or known is None:
        return None
    for function in around:
        known = known | function.locals | function.outer | {param.name for param in function.params} | {function.name}
    nodes = list(_read_on_the_way(around[-1].body, site.at))
    perhaps = {id(part) for node in nodes for part in _perhaps(node)}
    for node in nodes:
        if isinstance(node, ir.Name) and node.id not in known and id(node) not in perhaps:
            return Site(site.path, node.at), node.id
    return None


def _is_type(source: bytes, name: str) -> bool:
    """Whether a file has a type parameter of this name, or a ``type`` statement."""
    word = re.escape(name.encode())
    parameter = rb"^[ \t]*(?:(?:async[ \t]+)?def|class|type)[ \t]+\w+[ \t]*\[[^\]]{0,400}?\b%s\b" % word
    return re.search(rb"%s|^[ \t]*type[ \t]+%s\b" % (parameter, word), source, re.MULTILINE) is not None


def _is_put(program: Program, path: str, name: str) -> bool:
    """Whether a file of the tree sets an attribute of this name of a module: it may be the one of `path`."""
    project, word = program.project, re.escape(name.encode())
    put = re.compile(
        rb"(?<![\w.])([A-Za-z_]\w*)(?:\.\w+)*\.%s[ \t]*(?::[^=\n]{0,200})?=(?!=)"
        rb"|\bsetattr\([ \t]*(\w+)[\w.]{0,200},[ \t]*[\"']%s[\"']" % (word, word)
    )
    for other in (path, *project.naming(name, path)):
        heads = [match[1] or match[2] for match in put.finditer(project.read(other) or b"")]
        if any(is_imported(project.read(other) or b"", head) for head in heads):
            return True
    return False


def _functions_around(unit: ir.Unit, at: int) -> list[ir.FunctionDef]:
    """The functions whose text holds a place, the outermost first."""
    found = [node for node in of_type(unit, ir.FunctionDef) if node.at <= at <= node.last]
    return sorted(found, key=lambda node: node.at)


@remembered(maxsize=32)
def _defined(unit: ir.Unit) -> frozenset[str] | None:
    """The names that a file may define for all its functions; None where that cannot be told."""
    found = set(_ALWAYS)
    for node in every(unit):
        if isinstance(node, ir.ImportFrom) and any(name == "*" for name, _ in node.names):
            return None
        if isinstance(node, ir.Call) and isinstance(node.callee, ir.Name) and node.callee.id in _DEFINING:
            return None
        if isinstance(node, ir.Outer):
            found |= set(node.names)
        elif isinstance(node, ir.ClassDef):
            found.add(node.name)
        elif isinstance(node, (ir.Clause, ir.Walrus)):
            found |= set(target_names(node.target))
        elif isinstance(node, ir.Lambda):
            found |= {param.name for param in node.params}
    for node in walk(unit.body, into_functions=False):
        found |= set(_bound(node))
    return frozenset(found)


def _bound(node: object) -> Iterator[str]:
    if isinstance(node, (ir.FunctionDef, ir.ClassDef)):
        yield node.name
    elif isinstance(node, ir.Import):
        yield from (alias or name.partition(".")[0] for name, alias in node.names)
    elif isinstance(node, ir.ImportFrom):
        yield from (alias for _, alias in node.names)
    elif isinstance(node, ir.Assign):
        yield from assigned_names(node)
    elif isinstance(node, (ir.Augment, ir.For)):
        yield from target_names(node.target)
    elif isinstance(node, ir.With):
        yield from (name for _, target in node.items if target is not None for name in target_names(target))
    elif isinstance(node, ir.Handler) and node.name:
        yield node.name
    elif isinstance(node, ir.Case):
        yield from node.names


def _perhaps(node: object) -> Iterator[object]:
    """What an expression need not evaluate: a branch, the right side of ``and``, the elements of what may be empty."""
    parts: tuple[object, ...] = ()
    if isinstance(node, ir.Conditional):
        parts = (node.body, node.orelse)
    elif isinstance(node, ir.Operation) and node.op in {"and", "or"} and node.right is not None:
        parts = (node.right,)
    elif isinstance(node, ir.Comprehension):
        parts = (node.element, *node.clauses[1:], *(test for clause in node.clauses for test in clause.conditions))
    yield from walk(parts, into_functions=False)


def _read_on_the_way(body: ir.Block, at: int) -> Iterator[object]:
    """What is evaluated whenever a place in a block is reached, as far as the text goes on from there."""
    inner = max((node for node in body if node.at <= at), key=lambda node: node.at, default=None)
    for node in body:
        if isinstance(node, ir.Try):
            if node is not inner:
                continue
            return  # what goes wrong in it may be meant to
        if isinstance(node, (ir.Evaluate, ir.Assign, ir.Augment)):
            yield from walk((node,), into_functions=False)
        elif isinstance(node, (ir.If, ir.While)):
            yield from walk((node.test,), into_functions=False)
        elif isinstance(node, ir.For):
            yield from walk((node.iter,), into_functions=False)
        elif isinstance(node, ir.With):
            yield from walk(tuple(context for context, _ in node.items), into_functions=False)
        if node is inner:
            entered = [block for block in _blocks(node) if block and block[0].at <= at]
            yield from _read_on_the_way(entered[-1], at) if entered else ()
        elif isinstance(node, (ir.Return, ir.Raise)):
            return


def _blocks(node: ir.Stmt) -> tuple[ir.Block, ...]:
    if isinstance(node, (ir.If, ir.For, ir.While)):
        return (node.body, node.orelse)
    return (node.body,) if isinstance(node, ir.With) else ()
