"""Where a checkpoint that is read comes from: from the same run, from somebody else, or from a model on the host."""

from __future__ import annotations

import itertools
import re

from analyzer.engine.data_events import Read, Restored, Saved
from analyzer.engine.events import Backward, Step
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled, words
from analyzer.knowledge.words import pattern
from analyzer.rules.iteration import is_one_run
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, dotted, of_type, walk

_KEPT_BY_RUN = re.compile(r"\.(?:kth_)?(?:best|last)_model_(?:path|checkpoint)\b|\.last_checkpoint\b")
"""Where Lightning's and Ignite's checkpoint callbacks and the trainer of transformers keep what their run has saved."""
_EXISTS = re.compile(r"(?:^|\.)(?:exists|isfile|is_file|lexists)$")
_MIN_NAME = 6
"""Letters of a name that tell files apart: an ending does not."""


def is_published(program: Program, read: Read, use: Restored) -> bool:
    """Whether the file is likely to come from elsewhere, saved from who knows which device: the weights of a base
    network, what the same function downloads, or what a program that trains nothing reads by a written name that
    says nothing of a run."""
    function = program.function_around(read.site)
    if function is not None and any(
        "()" in how and pattern("fetches a file").search(name) for name, how in function.uses.items()
    ):
        return True
    if function is not None and any(param.name == "pretrained" for param in function.params):
        return True
    if pattern("trained before").search(_written_for(program, read)) or _is_in_constructor(program, function, use):
        return True
    target = words(program).node(use.site)
    if isinstance(target, ir.Call) and pattern("a base network").search(spelled(target.callee)):
        return True
    if read.file_at is None:
        return False
    site = Site(read.site.path, read.file_at)
    if pattern("a base network").search(words(program).of(site)):
        return True
    node = words(program).node(site)
    if any(program.of(Backward)) or not isinstance(node, ir.Expr) or not _is_written(node):
        return False
    return not pattern("saved by the run").search(words(program).of(site))


def _is_in_constructor(program: Program, function: ir.FunctionDef | None, use: Restored) -> bool:
    """Whether a network gets its own weights when it is made: those of a backbone."""
    node = words(program).node(use.site)
    is_init = function is not None and function.name == "__init__" and function.params[:1] != ()
    return is_init and isinstance(node, ir.Call) and dotted(node.callee) == "self.load_state_dict"


def _written_for(program: Program, read: Read) -> str:
    """What is written down of the name of the file, also where a variable of the same body holds it."""
    if read.file_at is None:
        return ""
    site = Site(read.site.path, read.file_at)
    node, function, unit = words(program).node(site), program.function_around(site), program.unit(site.path)
    if not isinstance(node, ir.Expr) or unit is None:
        return ""
    given: list[ir.Expr] = [node]
    if isinstance(node, ir.Name):
        body = function.body if function is not None else unit.body
        assigned = (
            each for each in walk(body, False) if isinstance(each, ir.Assign) and node.id in assigned_names(each)
        )
        given = [each.value for each in assigned if each.value is not None]
    parts = (part for value in given for part in walk((ir.Evaluate(value.at, value),), True))
    return " ".join(str(part.value) for part in parts if isinstance(part, ir.Constant))


def _is_written(node: ir.Expr) -> bool:
    """Whether a name is written down: ``"best.pt"``, ``os.path.join(os.path.dirname(__file__), "s3fd.pth")``."""
    if isinstance(node, ir.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ir.Operation):
        return node.right is not None and _is_written(node.left) and _is_written(node.right)
    return isinstance(node, ir.Call) and bool(node.args) and "__file__" in spelled(node)


def was_saved_here(program: Program, read: Read) -> bool:
    """The same run wrote the file before: it is on the device that is used."""
    name = file_named(program, read.site, read.file_at)
    if _KEPT_BY_RUN.search(name) or _was_named(program, read) or _was_returned(program, read):
        return True
    if _follows_training(program, read):
        return True
    earlier = itertools.takewhile(lambda event: event is not read, program.events)
    is_local = any(_is_local(program, read.site, each) for each in name.split())  # elsewhere it is another file
    literals = _literals(program, read.site, read.file_at)
    return any(
        (
            file_named(program, each.site, each.file_at) == name
            and (each.function == read.function or not (is_local or _is_local(program, each.site, name)))
        )
        or (is_one_run(program, each, read) and bool(literals & _literals(program, each.site, each.file_at)))
        for each in earlier
        if isinstance(each, Saved)
    )


def _is_local(program: Program, site: Site, name: str) -> bool:
    """Whether a name is bound in the function around a place; one of the file means the same in all its functions."""
    function = program.function_around(site)
    if function is None:
        return False
    assigned = (each for each in walk(function.body, False) if isinstance(each, ir.Assign))
    return name in {param.name for param in function.params} or any(name in assigned_names(each) for each in assigned)


def _literals(program: Program, site: Site, at: int | None) -> set[str]:
    """The parts of a file's name that are written down and tell files apart: ``"model_%d.pt"``."""
    node = words(program).node(Site(site.path, at)) if at is not None else None
    parts = walk((ir.Evaluate(node.at, node),), True) if isinstance(node, ir.Expr) else ()
    texts = (part.value for part in parts if isinstance(part, ir.Constant) and isinstance(part.value, str))
    return {text for text in texts if len(text.strip("./_-")) >= _MIN_NAME}


def _was_named(program: Program, read: Read) -> bool:
    """Whether the name is written down, and another call of the same run of code was given it before, to save there."""
    node = words(program).node(Site(read.site.path, read.file_at)) if read.file_at is not None else None
    unit = program.unit(read.site.path)
    if not isinstance(node, ir.Constant) or unit is None or read.calls:
        return False
    return any(
        isinstance(other, ir.Call) and other.at < read.site.at and any(_is_same(arg.value, node) for arg in other.args)
        for other in walk(unit.body, False)
    )


def _follows_training(program: Program, read: Read) -> bool:
    """Whether the same function has trained before: what it reads then is what the training has written."""
    around = len(read.calls)
    return any(
        step.order < read.order and step.calls[:around] == read.calls and step.loops[: len(read.loops)] == read.loops
        for step in program.of(Step)
        if len(step.loops) > len(read.loops) and not step.framework
    )


def _was_returned(program: Program, read: Read) -> bool:
    """``path = train(…)``: whether the name comes from a call that wrote a file before."""
    node = words(program).node(Site(read.site.path, read.file_at)) if read.file_at is not None else None
    function, unit = program.function_around(read.site), program.unit(read.site.path)
    if not isinstance(node, ir.Name) or unit is None:
        return False
    made = {
        each.value.at
        for each in walk(function.body if function is not None else unit.body, False)
        if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call) and node.id in assigned_names(each)
    }
    calls = {Site(read.site.path, at) for at in made}
    return any(not calls.isdisjoint(event.calls) for event in program.of(Saved))


def _is_same(value: ir.Expr, node: ir.Constant) -> bool:
    return isinstance(value, ir.Constant) and value.value == node.value


def file_named(program: Program, site: Site, at: int | None) -> str:
    if at is None:
        return ""
    node = words(program).node(Site(site.path, at))
    if isinstance(node, ir.Name):
        node = _opened_as(program, site.path, node) or node
    if isinstance(node, ir.Call) and isinstance(node.callee, ir.Name) and node.callee.id == "open" and node.args:
        node = node.args[0].value  # ``open(name, "wb")``
    return spelled(node) if isinstance(node, ir.Expr) else ""


def _opened_as(program: Program, path: str, name: ir.Name) -> ir.Expr | None:
    """The call of ``with open(…) as f:`` around a use of ``f``."""
    for node in of_type(program.unit(path), ir.With):
        if any(part is name for part in walk(node.body, False)):
            for value, target in node.items:
                if isinstance(target, ir.Name) and target.id == name.id:
                    return value
    return None
