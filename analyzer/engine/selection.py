"""What decides which weights are kept: the number that a condition compares with the best one so far, and the loaders
that this number was measured on.

A number of plain Python does not remember where it came from, so this is read from the text around the condition: only
on demand, where something is saved under a condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.data_events import Fitted, LoaderIterated, LoaderMade
from analyzer.engine.events import Backward, Guard
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.values import Const, ObjectId, Ref, Value
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_ORDERS = {"<", "<=", ">", ">="}
_MAX_NAMES = 12
OFFICIAL = ("torchvision.datasets.", "datasets.load_dataset")
"""Data sets whose arguments name one of the splits that their authors made."""
_NO_SPLIT = "datasets.load_dataset of files"
_SPLITS = {
    True: "train",
    False: "test",
    "train": "train",
    "test": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
}
_SPLIT_WORDS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}
_KEEPERS = frozenset(["ModelCheckpoint", "EarlyStopping"])
_FEEDS = frozenset(["add", "add_batch", "append", "extend", "update"])
"""Methods that put what was measured into a metric or a list."""
_NO_SCORE = re.compile(r"best|load|data|set|iter|sampl|split|size|len|num|idx|ind[ei]|path|dir|file|transf|conf|arg")
"""Names of what a score is measured on, or of where it is kept."""
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset")


def split_of(program: Program, made: LoaderMade) -> str:
    """The official split that a loader draws from: ``train``, ``val``, ``test``, ``part`` for a part of the training
    split, or nothing where it is unknown."""
    data = made.argument("dataset")
    found = {_split_of(program, case) for case in (data.cases if data is not None else ())}
    return found.pop() if len(found) == 1 else ""


def _split_of(program: Program, case: Value) -> str:
    obj = program.objects[case.obj] if isinstance(case, Ref) else None
    if obj is not None and obj.name.startswith(_PARTS):
        whole = {_split_of(program, part) for _, value in obj.arguments[:1] for part in value.cases}
        return "part" if whole == {"train"} else ""
    if obj is None or not obj.name.startswith(OFFICIAL) or obj.name.startswith(_NO_SPLIT):
        return ""
    given = dict(obj.arguments)
    value = given.get("train", given.get("split", given.get("1")))
    if isinstance(value, Const) and isinstance(value.value, str) and value.value.startswith("train["):
        return "part"  # ``split="train[:90%]"``
    return _SPLITS.get(value.value, "") if isinstance(value, Const) and isinstance(value.value, (bool, str)) else ""


def named_split(program: Program, made: LoaderMade) -> str:
    """The split that the files or the words a dataset is made from name, where they name one only."""
    data = made.argument("dataset")
    found: set[str] = set()
    for case in data.cases if data is not None else ():
        trace = program.objects[case.obj].trace if isinstance(case, Ref) else case.trace
        node = words(program).node(trace.site) if trace is not None else None
        texts = [
            part.value
            for part in walk((node,), into_functions=False)
            if isinstance(part, ir.Constant) and isinstance(part.value, str)
        ]
        said = {_SPLIT_WORDS[word] for text in texts for word in re.split(r"[^a-z]+", text) if word in _SPLIT_WORDS}
        found.add(said.pop() if isinstance(node, ir.Call) and len(said) == 1 else "")
    return found.pop() if len(found) == 1 else ""


def validating(program: Program) -> Iterator[LoaderMade]:
    """The loaders that Lightning validates on: those of its hook, and those that ``fit`` is given."""
    given = {loader for event in program.of(Fitted) for loader in event.validates}
    for made in program.of(LoaderMade):
        function = program.function_around(made.site)
        if made.loader in given or (function is not None and function.name == "val_dataloader"):
            yield made


def keeps_best(program: Program) -> Site | None:
    """A callback of Lightning that keeps, or stops at, the best score of the validation."""
    for path in program.modules:
        for node in of_type(program.unit(path), ir.Call):
            if last_name(node.callee) in _KEEPERS:
                names = [arg.value for arg in node.args if arg.keyword == "monitor"]
                if any(isinstance(name, ir.Constant) and "train" not in str(name.value) for name in names):
                    return Site(path, node.at)
    return None


def stopped_by(program: Program) -> Iterator[tuple[Site, frozenset[ObjectId]]]:
    """Where an object that stops the training at the best score, and keeps its weights, is told a score
    (``stopper(loss, model)``), with the loaders that it was measured on."""
    for path in program.modules:
        unit = program.unit(path)
        if unit is None or b"EarlyStopping" not in (program.project.read(path) or b""):
            continue
        bodies = (unit.body, *(each.body for each in of_type(unit, ir.FunctionDef)))
        stoppers = {
            name
            for body in bodies
            for names, value in _assigned(body)
            if isinstance(value, ir.Call) and last_name(value.callee) == "EarlyStopping"
            for name in names
        }
        for body in bodies:
            for node in walk(body, into_functions=False):
                if isinstance(node, ir.Call) and node.args and dotted(node.callee) in stoppers:
                    measured = _Measured(program, path, body)
                    found = [measured.loaders(name) for name in sorted(_names(node.args[0].value))]
                    yield Site(path, node.at), frozenset().union(*found)


def chosen_by_name(program: Program) -> Iterator[tuple[Site, Site]]:
    """Where the score that one's own words call that of the test data is the best so far and more than that score is
    kept, though a score on validation data stands beside it and nothing is chosen by that: with where it is made."""
    for path in program.modules:
        unit = program.unit(path)
        if unit is not None:
            source = program.project.read(path) or b""
            yield from ((Site(path, at), Site(path, made)) for at, made in _chosen(unit, source))


@remembered(maxsize=512)
def _chosen(unit: ir.Unit, source: bytes) -> tuple[tuple[int, int], ...]:
    """`chosen_by_name` in one file, which many programs share."""
    found: list[tuple[int, int]] = []
    if not _may_choose_by_test(source):
        return ()
    for body in (unit.body, *(each.body for each in of_type(unit, ir.FunctionDef))):
        nodes = tuple(walk(body, into_functions=False))
        tests = [best for node in nodes for best in (_best_so_far(node) if isinstance(node, ir.If) else ())]
        tests += _flags(nodes)
        if not tests or any(_said(name) == "val" for _, name, _ in tests):
            continue
        made = next((each.at for each in nodes if isinstance(each, ir.Assign) and _scores(each, "val")), None)
        if made is not None:
            found += [(at, made) for at, name, keeps_more in tests if _said(name) == "test" and keeps_more]
    return tuple(found)


def measured_on_test(program: Program) -> Iterator[tuple[Site, str, Site]]:
    """Where a function calls a number after the validation data that it measures on the test data, and never reads the
    validation data that it is given: with their name, and where it is given them."""
    for path in program.modules:
        unit = program.unit(path)
        if unit is not None and b"test" in (program.project.read(path) or b""):
            yield from ((Site(path, at), name, Site(path, given)) for at, name, given in _misnamed(unit))


@remembered(maxsize=512)
def _misnamed(unit: ir.Unit) -> tuple[tuple[int, str, int], ...]:
    """`measured_on_test` in one file, which many programs share."""
    found: list[tuple[int, str, int]] = []
    for function in of_type(unit, ir.FunctionDef):
        params = [param for param in function.params if _said(param.name) == "val"]
        if not params or not any(_said(param.name) == "test" for param in function.params):
            continue
        nodes = tuple(walk(function.body, into_functions=True))
        read = {node.id for node in nodes if isinstance(node, ir.Name)}
        unread = next((param for param in params if param.name not in read), None)
        for node in nodes if unread is not None else ():
            call = node.value if isinstance(node, ir.Assign) and _scores(node, "val") else None
            if unread is None or not isinstance(call, ir.Call):
                continue
            said = {_said(name) for arg in call.args if (name := dotted(arg.value))}
            if "test" in said and "val" not in said:
                found.append((call.at, unread.name, unread.at))
    return tuple(found)


def _may_choose_by_test(source: bytes) -> bool:
    """Whether any line `_compares_test`. Only those that hold the word are looked at, each once."""
    at = source.find(b"test")
    while at >= 0:
        end = source.find(b"\n", at)
        end = len(source) if end < 0 else end
        if _compares_test(source[source.rfind(b"\n", 0, at) + 1 : end]):
            return True
        at = source.find(b"test", end)
    return False


def _compares_test(line: bytes) -> bool:
    """Whether a line may compare a number with `test` in its name, under an ``if`` or for a flag. No pattern: one would
    look for the rest of the line again from each ``if`` and ``test``."""
    said = line.partition(b"if " if b"if " in line else b"=")[2]
    return b"test" in said and (b"<" in said or b">" in said)


def _best_so_far(node: ir.If) -> list[tuple[int, str, bool]]:
    """``if score > best: best = score``: where, the score, and whether the branch keeps anything else. Of ``if val >
    best_val or test > best_test`` only the score on the test data: it alone is enough."""
    found: list[tuple[int, str, bool]] = []
    assigns = [each for each in walk(node.body, False) if isinstance(each, ir.Assign) and each.value is not None]
    parts = [part for part in walk((node.test,), False) if isinstance(part, ir.Operation)]
    for part in parts:
        for one in (part.left, part.right) if part.op in _ORDERS else ():
            name = _name(one)
            keeps = [
                each
                for each in assigns
                if each.value is not None and name in _best_of(each.value) and name not in map(_name, each.targets)
            ]
            if name is not None and keeps and not isinstance(keeps[0].targets[0], ir.Display):
                found.append((part.at, name, len(assigns) > len(keeps) or _saves(node.body)))
    is_either = any(part.op == "or" for part in parts) and not any(part.op == "and" for part in parts)
    decides = [each for each in found if _said(each[1]) == ("test" if is_either else "val")]
    return (decides or found)[:1]


def _best_of(value: ir.Expr) -> frozenset[str]:
    """The scores that a value is one of: ``score``, ``result["accuracy"]``, ``max(score, best)``."""
    is_best = isinstance(value, ir.Call) and last_name(value.callee) in {"max", "min"}
    parts = [arg.value for arg in value.args] if is_best and isinstance(value, ir.Call) else [value]
    return frozenset(name for part in parts if (name := _name(part)) is not None)


def _flags(nodes: tuple[object, ...]) -> list[tuple[int, str, bool]]:
    """``is_best = score > best; best = max(score, best)``: where, the score, and whether what is saved hangs on it."""
    found: list[tuple[int, str, bool]] = []
    assigns = [each for each in nodes if isinstance(each, ir.Assign) and each.value is not None]
    for node in assigns:
        compared, flag = node.value, dotted(node.targets[0])
        if flag is None or not isinstance(compared, ir.Operation) or compared.op not in _ORDERS:
            continue
        for one, other in ((compared.left, compared.right), (compared.right, compared.left)):
            name, best = _name(one), _name(other)
            kept = (each.value for each in assigns if best is not None and best in map(_name, each.targets))
            if name is not None and any(value is not None and name in _best_of(value) for value in kept):
                found.append((compared.at, name, any(_hangs_on(each, flag) for each in nodes)))
                break
    return found


def _hangs_on(node: object, flag: str) -> bool:
    """``save_checkpoint(…, is_best)``, or ``if is_best:`` with something that is saved."""
    if isinstance(node, ir.If):
        return flag in _names(node.test) and _saves(node.body)
    is_call = isinstance(node, ir.Call) and "save" in last_name(node.callee)
    return is_call and isinstance(node, ir.Call) and any(dotted(arg.value) == flag for arg in node.args)


def _saves(body: ir.Block) -> bool:
    calls = (each for each in walk(body, False) if isinstance(each, ir.Call))
    return any("save" in last_name(call.callee) for call in calls)


def _said(name: str) -> str:
    """The split that the words of a name speak of, where they speak of one."""
    said = {_SPLIT_WORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _SPLIT_WORDS}
    return said.pop() if len(said) == 1 else ""


def _scores(node: ir.Assign, split: str) -> bool:
    """Whether a call gives a score on a split."""
    names = [name for target in node.targets for part in walk((target,), False) if (name := _plain(part))]
    return isinstance(node.value, (ir.Call, ir.Subscript)) and any(
        _said(name) == split and not _NO_SCORE.search(name) for name in names
    )


def _plain(part: object) -> str | None:
    return dotted(part) if isinstance(part, (ir.Name, ir.Attribute)) else None


def decided_by(program: Program, guard: Guard, calls: tuple[Site, ...]) -> frozenset[ObjectId]:
    """The loaders on which the number was measured that a condition compares with the best one so far; none where it
    compares something else, or where this does not show. `calls`: those that led to the function of the condition,
    which may be given the number (``stopper(loss, model)``)."""
    unit = program.sources.unit(guard.site.path)
    if unit is None or not guard.taken:
        return frozenset()
    function = program.function_around(guard.site)
    body = function.body if function is not None else unit.body
    node = next((each for each in walk(body, into_functions=False) if getattr(each, "at", None) == guard.site.at), None)
    if not isinstance(node, ir.If):
        return frozenset()
    for name in _compared(body, node.test):
        found = _Measured(program, guard.site.path, body).loaders(name)
        given = _given(program, function, name, calls) if not found and function is not None else None
        if given is not None:
            site, value = given
            caller, around = program.function_around(site), program.sources.unit(site.path)
            place = caller.body if caller is not None else around.body if around is not None else ()
            measured = _Measured(program, site.path, place)
            found = frozenset().union(*(measured.loaders(each) for each in sorted(_names(value))))
        if found:
            return found
    return frozenset()


def _given(
    program: Program, function: ir.FunctionDef, name: str, calls: tuple[Site, ...]
) -> tuple[Site, ir.Expr] | None:
    """What the call that led to a function gives a parameter of it, and where."""
    params = [param.name for param in function.params]
    led = next((site for site in reversed(calls) if program.function_around(site) is not function), None)
    node = words(program).node(led) if led is not None and name in params else None
    if not isinstance(node, ir.Call) or any(arg.star for arg in node.args):
        return None
    by_name = next((arg.value for arg in node.args if arg.keyword == name), None)
    index = params.index(name) - (params[0] == "self")
    positional = [arg.value for arg in node.args if arg.keyword is None]
    value = by_name or (positional[index] if index < len(positional) else None)
    return (led, value) if led is not None and value is not None else None


def _compared(body: ir.Block, test: ir.Expr) -> Iterator[str]:
    """The names that are compared with a name that then gets their value: ``acc`` in ``if acc > best: best = acc``."""
    tests = [test]
    if isinstance(test, ir.Name):  # ``is_best = acc > best``
        tests += [value for targets, value in _assigned(body) if test.id in targets]
    for each in walk(tuple(tests), into_functions=False):
        if isinstance(each, ir.Operation) and each.op in _ORDERS and each.right is not None:
            left, right = _name(each.left), _name(each.right)
            for name, best in ((left, right), (right, left)):
                if name and best and any(best in to and name in _names(value) for to, value in _assigned(body)):
                    yield name


def _name(expr: ir.Expr | None) -> str | None:
    """A name, or that of what an element is taken out of: ``result["accuracy"]``."""
    return _name(expr.value) if isinstance(expr, ir.Subscript) else dotted(expr) if expr is not None else None


def _assigned(body: ir.Block) -> Iterator[tuple[frozenset[str], ir.Expr]]:
    """The assignments of a body: to which names, and what."""
    for node in walk(body, into_functions=False):
        if isinstance(node, ir.Assign) and node.value is not None:
            targets = [each for target in node.targets for each in walk((target,), into_functions=False)]
            yield (
                frozenset(name for each in targets if isinstance(each, ir.Expr) and (name := dotted(each))),
                node.value,
            )


def _names(value: ir.Expr) -> frozenset[str]:
    nodes = walk((value,), into_functions=False)
    return frozenset(name for node in nodes if isinstance(node, ir.Expr) and (name := dotted(node)))


class _Measured:
    """Follows a name of a body back to the loops over loaders that it was measured in."""

    def __init__(self, program: Program, path: str, body: ir.Block) -> None:
        self.path, self.body = path, body
        self.drawn = list(program.of(LoaderIterated))
        self.training = {loop.site for event in program.of(Backward) for loop in event.loops}

    def loaders(self, name: str) -> frozenset[ObjectId]:
        """The loaders behind a name; none where a loop that trains is among them."""
        owner = name.rpartition(".")[0]  # ``meter.avg``: what was fed to the meter
        todo, seen = [name, owner] if owner not in {"", "self"} else [name], set[str]()
        found: set[LoaderIterated] = set()
        while todo and len(seen) < _MAX_NAMES:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            found.update(self.filled(name))
            for targets, value in _assigned(self.body):
                if name in targets:
                    inside = list(self.called(value))
                    found.update(inside)
                    todo += () if inside else sorted(_names(value))
        if any(event.site in self.training for event in found):
            return frozenset()
        return frozenset(loader for event in found for loader in event.loaders)

    def called(self, value: ir.Expr) -> Iterator[LoaderIterated]:
        """The loops over loaders inside the calls of an expression."""
        calls = {Site(self.path, node.at) for node in walk((value,), into_functions=False) if isinstance(node, ir.Call)}
        return (event for event in self.drawn if calls.intersection(event.calls))

    def filled(self, name: str) -> Iterator[LoaderIterated]:
        """The loops of the body over loaders in which a name is added to."""
        drawn = {event.site.at: event for event in self.drawn if event.site.path == self.path}
        for node in walk(self.body, into_functions=False):
            if isinstance(node, ir.For) and node.at in drawn:
                inside = walk(node.body, into_functions=False)
                if any(_adds_to(each, name) for each in inside):
                    yield drawn[node.at]


def _adds_to(node: object, name: str) -> bool:
    """``total += …``, ``metric.update(…)``, ``predictions.append(…)``."""
    if isinstance(node, ir.Augment):
        return dotted(node.target) == name
    fed = node.callee if isinstance(node, ir.Call) else None
    return isinstance(fed, ir.Attribute) and fed.attr in _FEEDS and dotted(fed.value) == name
