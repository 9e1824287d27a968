"""What an evaluation adds up over its batches, where the sum is used, and whether ranks put their parts together.

Numbers of plain Python do not remember where they came from, so this is read from the text around a loop: only on
demand, where ranks draw different parts of the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from analyzer.engine.loading import DEVICE_NAMES, RANK_WORDS
from analyzer.engine.origins import origins
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.words import spelled, words
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, every, last_name, of_type, walk

_PUTS_TOGETHER = re.compile(
    r"reduc(?!tion|_?e?_?lr|eLR)|gather|sync(?!_?b|hronize$|_grad)|collect_|aggregat|across|allred|hvd|horovod|process_count",
    re.IGNORECASE,
)
"""Names of what merges the parts of ranks. They only ever hush."""
_WRITES = re.compile(r"save|dump|write|to_csv|open")
_FILLS = {"append", "extend", "update", "add", "add_batch", "add_all", "process"}
_MERGES_ITSELF = ("torchmetrics", "torcheval", "pytorch_lightning", "lightning", "ignite", "monai")
_KNOWN = {
    "torch", "numpy", "math", "collections", "sklearn", "scipy", "evaluate", "datasets", "pandas", "json", "os", "time",
    "logging", "wandb", "tqdm", "tensorboardX", "statistics", "seqeval", "nltk", "sacrebleu", "matplotlib",
    "rouge_score", "pathlib", "pickle", "csv", "sys", "operator", "functools", "itertools", "mlflow", "jiwer",
    "editdistance",
}  # fmt: skip
"""Libraries that do not talk to other ranks behind a function that gets numbers."""
_OWN_METER = "AverageMeter"
"""Wherever it comes from: as in pytorch/examples, it keeps its own sum, and asks other ranks in a method of its own."""
_HANDS = 2
_STEPS = 3
"""How many assignments a number that is put together may be away from what a loop added up."""


@dataclass(frozen=True, slots=True)
class Total:
    """What a loop adds up: where it is first used, and whether code that was not read may have merged it. `is_apart`:
    the program puts results of ranks together somewhere else, before the evaluation, as one does with training losses.
    """

    used: Site
    is_sure: bool
    is_apart: bool = False


def total_of(program: Program, loop: Site, calls: tuple[Site, ...]) -> Total | None:
    """The total of a loop that no rank shares with the others; None where there is none, or where something may merge
    the parts: in the function of the loop, in what it calls, or in its callers."""
    unit = program.unit(loop.path)
    function = program.function_around(loop)
    if unit is None:
        return None
    body = function.body if function is not None else unit.body
    node = next((each for each in walk(body, False) if isinstance(each, ir.For) and each.at == loop.at), None)
    if node is None:
        return None
    filled = set(_filled(node))
    used = _first_use(program, loop.path, body, node, filled)
    own = () if _merges_others(program, body, filled) else body
    if used is None or _is_merged(program, loop.path, own, calls, after=True):
        return None
    is_apart = _is_merged(program, loop.path, body, calls)
    statement, names = used
    origins = {_origin(program, loop.path, body, name) for name in names}
    if "merges" in origins:
        return None
    is_sure = "unread" not in origins and not _is_handed_on(program, loop.path, statement, names)
    return Total(Site(loop.path, statement.at), is_sure, is_apart)


def _filled(loop: ir.For) -> Iterator[str]:
    """The names that a loop adds to: ``correct += …``, ``scores.append(…)``, ``metric.update(…)``."""
    for node in walk(loop.body, False):
        if isinstance(node, ir.Augment) and not isinstance(node.value, ir.Constant) and (name := _target(node.target)):
            yield name
        elif isinstance(node, ir.Assign) and isinstance(node.value, ir.Operation) and node.value.op == "+":
            yield from (n for target in node.targets if (n := dotted(target)) and n == dotted(node.value.left))
        elif isinstance(node, ir.Evaluate) and isinstance(node.value, ir.Call):
            callee = node.value.callee
            if isinstance(callee, ir.Attribute) and callee.attr in _FILLS and (name := _target(callee.value)):
                yield name


def _target(node: ir.Expr) -> str | None:
    return dotted(node.value if isinstance(node, ir.Subscript) else node)


def _first_use(
    program: Program, path: str, body: ir.Block, loop: ir.For, filled: set[str]
) -> tuple[ir.Expr, set[str]] | None:
    """The first expression behind a loop that uses what it added up, and which of the names."""
    end = max((at for at in (getattr(each, "at", 0) for each in walk(loop.body, False))), default=loop.at)
    found: list[tuple[ir.Expr, set[str]]] = []
    for node in walk(body, False):
        for value in _values(node) if isinstance(node, ir.Stmt) and node.at > end else ():
            if not isinstance(node, ir.If) and (_says_rank(value) or _is_file_by_device(value)):
                return None  # every rank writes a part of its own
            if not isinstance(node, ir.If) and _is_file_by_rank(program, path, value):
                return None
            if names := filled & set(_names(value)):
                found.append((value, names))
    return min(found, key=lambda each: each[0].at, default=None)


def _says_rank(value: ir.Expr) -> bool:
    """Whether an expression speaks of the rank, and not only as the device that it sends something to, nor of the
    number of ranks that it divides by."""
    if isinstance(value, ir.Operation) and value.op == "/" and isinstance(value.right, (ir.Name, ir.Attribute)):
        return _says_rank(value.left)
    calls = (each for each in walk((value,), False) if isinstance(each, ir.Call))
    sent = [arg.value for call in calls if last_name(call.callee) in {"to", "cuda"} for arg in call.args]
    known = sum(len(RANK_WORDS.findall(spelled(each))) for each in sent)
    return len(RANK_WORDS.findall(spelled(value))) > known


def _is_file_by_rank(program: Program, path: str, value: ir.Expr) -> bool:
    """The same of a rank or device under any name; and of an argument that no call which was read gives."""
    calls = [each for each in walk((value,), False) if isinstance(each, ir.Call)]
    files = [arg.value for call in calls if _opens(call) for arg in call.args]
    asked = origins(program)
    return any(
        RANK_WORDS.search(asked.all_of(path, file)) or asked.is_open(Site(path, file.at))
        for file in files
        if not isinstance(file, ir.Name)
    )


def _opens(call: ir.Call) -> bool:
    name = last_name(call.callee)
    return name == "open" or bool(_WRITES.search(name))


def _is_file_by_device(value: ir.Expr) -> bool:
    """``torch.save(scores, f"scores_{gpu}.pt")``: each process has a device, so that its number names the process."""
    calls = [each for each in walk((value,), False) if isinstance(each, ir.Call)]
    writes = any(_WRITES.search(last_name(call.callee)) for call in calls)
    return writes and bool(DEVICE_NAMES.search(spelled(value)))


def _values(node: ir.Stmt) -> Iterator[ir.Expr]:
    if isinstance(node, (ir.Return, ir.Assign, ir.Evaluate, ir.Augment)) and node.value is not None:
        yield node.value
    elif isinstance(node, ir.If):
        yield node.test
    elif isinstance(node, ir.With):
        yield from (item[0] for item in node.items)


def _names(value: ir.Expr) -> Iterator[str]:
    for node in walk((value,), False):
        if isinstance(node, (ir.Name, ir.Attribute)) and (name := dotted(node)):
            yield name


def _is_merged(program: Program, path: str, body: ir.Block, calls: tuple[Site, ...], after: bool = False) -> bool:
    """Whether a name in the function, its callers or its callees speaks of merging; `after`: in the callers, behind the
    call that led to the evaluation, for its result."""
    bodies: list[tuple[ir.Block, int]] = [(body, -1)]
    for site in calls:
        caller = program.function_around(site)
        if caller is not None and not (after and site in program.entries):
            bodies.append(_behind(caller.body, site.at) if after else (caller.body, -1))
    unit = program.unit(calls[0].path) if calls else None
    if unit is not None and not (after and calls[0] in program.entries):
        bodies.append(_behind(unit.body, calls[0].at) if after else (unit.body, -1))
    if any(_speaks(each, since) for each, since in bodies):
        return True
    around = [program.function_around(site) for site in calls] if after else []
    seen = {caller.name for caller in around if caller is not None}  # those were looked at, from the call on
    todo = {name for each, since in bodies for name in _called(each, since)}
    for _ in range(_HANDS):
        inside = [function.body for function in _functions(program) if function.name in todo - seen]
        if any(_speaks(each) for each in inside):
            return True
        seen |= todo
        todo = {name for each in inside for name in _called(each)}
    return False


def _behind(body: ir.Block, at: int) -> tuple[ir.Block, int]:
    """The block that goes on behind a call, and where the statement of the call begins: ``if args.evaluate:
    validate(…); return`` ends there."""
    for node in walk(body, False):
        inner = node.body if isinstance(node, ir.If) else ()
        if inner and isinstance(inner[-1], ir.Return) and inner[0].at <= at < inner[-1].at:
            return inner, _statement_at(inner, at)
    return body, _statement_at(body, at)


def _statement_at(body: ir.Block, at: int) -> int:
    """Where the statement begins that something stands in."""
    return max((node.at for node in walk(body, False) if isinstance(node, ir.Stmt) and node.at <= at), default=at)


def _merges_others(program: Program, body: ir.Block, filled: set[str]) -> bool:
    """Whether all that a function puts together are numbers with a name of their own, and none of them is made of what
    a loop added up: ``dist.all_reduce(train_loss)``."""
    nodes = tuple(walk(body, False))
    speaking = {function.name for function in _functions(program) if _speaks(function.body)}
    calls = [node for node in nodes if isinstance(node, ir.Call)]
    merging = [each for each in calls if speaking & {last_name(each.callee)} or _speaks((ir.Evaluate(0, each.callee),))]
    made = set(filled)
    for _ in range(_STEPS):
        for node in nodes:
            if isinstance(node, ir.Assign) and node.value is not None and made & set(_names(node.value)):
                made.update(name for target in node.targets for name in _names(target))
    given = [{dotted(arg.value) for arg in each.args[:1]} for each in merging]
    return bool(given) and all(names and None not in names and not names & made for names in given)


def _functions(program: Program) -> Iterator[ir.FunctionDef]:
    for path in program.modules:
        yield from of_type(program.unit(path), ir.FunctionDef)


def _called(body: ir.Block, since: int = -1) -> Iterator[str]:
    """The last names of what a body calls; what it makes an instance of counts with its constructor."""
    for node in walk(body, False):
        if getattr(node, "at", since) < since:
            continue
        if isinstance(node, ir.Call) and (name := dotted(node.callee)):
            yield name.rpartition(".")[2]
        elif isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute):
            yield node.callee.attr


def _speaks(body: ir.Block, since: int = -1) -> bool:
    return any(_PUTS_TOGETHER.search(word) for word in _spoken(body, since))


def _spoken(body: ir.Block, since: int = -1) -> Iterator[str]:
    for node in walk(body, False):
        if getattr(node, "at", since) < since:
            continue
        if isinstance(node, ir.Name):
            yield node.id
        elif isinstance(node, ir.Attribute):
            yield node.attr


def _origin(program: Program, path: str, body: ir.Block, name: str) -> str:
    """What a name was made by: ``plain`` numbers, lists and code that was read, ``merges`` by itself, or ``unread``."""
    unit = program.unit(path)
    for place in (body, unit.body if unit is not None else ()):
        made = [
            node.value
            for node in walk(place, place is not body)
            if isinstance(node, ir.Assign) and node.value is not None and any(_gives(t, name) for t in node.targets)
        ]
        if made:
            kinds = {_made_by(program, path, value) for value in made}
            return next((kind for kind in ("merges", "unread") if kind in kinds), "plain")
    return "unread"


def _gives(target: ir.Expr, name: str) -> bool:
    parts = target.items if isinstance(target, ir.Display) else (target,)
    return any(dotted(part) == name for part in parts)


def _made_by(program: Program, path: str, value: ir.Expr) -> str:
    if isinstance(value, ir.Call) and last_name(value.callee) == _OWN_METER:
        return "plain"
    return _home(program, path, value.callee) if isinstance(value, ir.Call) else "plain"


def _home(program: Program, path: str, callee: ir.Expr) -> str:
    """Where a callee comes from: a file that was read, a library that is known, one that merges, or elsewhere."""
    while isinstance(callee, (ir.Attribute, ir.Call, ir.Subscript)):
        callee = callee.callee if isinstance(callee, ir.Call) else callee.value
    unit = program.unit(path)
    if not isinstance(callee, ir.Name) or unit is None:
        return "plain"
    for node in every(unit):
        if isinstance(node, ir.ImportFrom) and any(bound == callee.id for _, bound in node.names):
            if program.project.resolve(node.module, path, node.level) is not None:
                return "plain"
            return _library(node.module)
        if isinstance(node, ir.Import):
            for module, bound in node.names:
                if (bound or module.partition(".")[0]) == callee.id:
                    is_read = program.project.resolve(module, path, 0) is not None
                    return "plain" if is_read else _library(module)
    return "plain"


def _library(module: str) -> str:
    root = module.partition(".")[0]
    return "merges" if root in _MERGES_ITSELF else "plain" if root in _KNOWN else "unread"


def _is_handed_on(program: Program, path: str, value: ir.Expr, names: set[str]) -> bool:
    """Whether what was added up goes into code that was not read."""
    return any(
        isinstance(node, ir.Call)
        and any(names & set(_names(arg.value)) for arg in node.args)
        and _home(program, path, node.callee) == "unread"
        for node in walk((value,), False)
    )


def divided_by_whole(program: Program, collective: Site, reduced: str) -> bool:
    """Whether a sum over ranks is divided by a length that every rank knows whole, and by nothing that counts ranks."""
    unit = program.unit(collective.path)
    function = program.function_around(collective)
    body = function.body if function is not None else unit.body if unit is not None else ()
    if any(RANK_WORDS.search(word) for word in _spoken(body)):
        return False
    counted = {
        dotted(arg.value)
        for node in walk(body, False)
        if isinstance(node, ir.Call) and _PUTS_TOGETHER.search(dotted(node.callee) or "")
        for arg in node.args[:1]
    }
    for node in walk(body, False):
        if isinstance(node, ir.Operation) and node.op == "/" and node.right is not None and node.at > collective.at:
            below = set(_names(node.right))
            if reduced in set(_names(node.left)) and "len" in below and not below & counted:
                return True
    return False


def is_cut(program: Program, site: Site) -> bool:
    """Whether the function around a place takes the beginning of something: ``found[:len(dataset)]``."""
    function = program.function_around(site)
    unit = program.unit(site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    return any(
        isinstance(node, ir.Slice) and node.upper is not None and node.lower is None for node in walk(body, False)
    )


def argument_name(program: Program, site: Site) -> str:
    """The name that the call at a place is given first; empty where it is another expression."""
    node = words(program).node(site)
    return (dotted(node.args[0].value) or "") if isinstance(node, ir.Call) and node.args else ""
