"""PF217 functional-dropout-always-on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from analyzer.engine.called import is_of_unused_class
from analyzer.engine.events import Mode
from analyzer.engine.mode_events import Dropped
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, Site
from analyzer.engine.values import Const
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.entered import is_tree_for_old_torch
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_MEANT = re.compile(
    rb"^(?=[^\n]*dropout\b(?!\())(?=[^\n]*\b(?:always|even (?:in|at|during|when)|non[- ]?deterministic))[^\n]*$"
    rb"|^[ \t]*#[^\n]*\bnon[- ]?deterministic\b[^\n]*\n[^\n]*dropout\(",
    re.IGNORECASE | re.MULTILINE,
)


class FunctionalDropoutAlwaysOn(Rule):
    """Dropout as a function does not know the mode of the module.

    ## Why it matters
    ``F.dropout(x, p)`` has ``training=True`` as its default: ``model.eval()`` does not turn it off. Predictions are
    random, metrics too low, and two runs over the same data differ. The same holds for the rate given to
    ``scaled_dot_product_attention`` and for a dropout layer made inside ``forward``, which is born in training mode.

    ## Example
    ```python
    def forward(self, x):
        x = F.dropout(F.relu(self.fc1(x)), 0.5)
        return self.fc2(x)
    ```

    ## Use instead
    ```python
    def forward(self, x):
        x = F.dropout(F.relu(self.fc1(x)), 0.5, training=self.training)
        return self.fc2(x)
    ```

    ## When it stays quiet
    When ``training`` is given, also as ``True``; when the function asks for ``training`` itself; with a rate of zero;
    outside modules; where the caller decides by an argument, also about the rate, and whoever calls ``forward``.
    A note where the class sets the rate to zero by default and its file makes none with another; where a comment or
    docstring of the file says that dropout is always on, or even in evaluation; and for a network that the file, or
    those that import it, train and never evaluate, while they evaluate another (a discriminator). So it is where a
    file of the tree reads ``loss.data[0]``: on the old PyTorch that this needs, the functions of dropout were off
    unless told otherwise.

    ## Fix safety
    Unsafe: evaluation gives other results, which is the point.
    """

    code = "PF217"
    name = "functional-dropout-always-on"
    severity = Severity.ERROR
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A dropout in a module, in a function that nowhere asks for the mode."""
        for event in program.of(Dropped):
            function = program.function_around(event.site)
            if function is None or any(_asks_for_mode(node) for node in _functions(program, event, function)):
                continue
            if event.how == "layer" and not _is_used_here(function, event):
                continue
            if _is_decided(event, function):
                continue
            report(
                event.site,
                _MESSAGES[event.how].format(callee=event.callee),
                because=[event.trace],
                gaps=[Gap.UNSEEN if _is_chosen(event, function) or _is_given(program, event) else Gap.CONVENTION],
                severity=Severity.NOTE
                if _is_said(program, event)
                or _only_trains(program, event, function)
                or is_of_unused_class(program, event.site)
                or _is_off_by_default(program, event)
                or (event.how == "function" and is_tree_for_old_torch(program))
                else None,
                fix=_fix(event),
            )


def _is_off_by_default(program: Program, event: Dropped) -> bool:
    """Whether the rate is kept from an argument of ``__init__`` that is zero by default, and no call of the file gives
    it; or kept by a class above that was not read."""
    unit = program.unit(event.site.path)
    node = words(program).node(Site(event.site.path, event.rate_at)) if event.rate_at is not None else None
    parts = (dotted(node) or "").split(".") if isinstance(node, ir.Attribute) else []
    if unit is None or isinstance(event.rate, Const) or len(parts) < 2 or parts[0] != event.owner:
        return False
    field = ".".join(parts[:2])
    if not any(_keeps(each, field) for each in of_type(unit, ir.Assign)):
        return True
    makers = of_type(unit, ir.Call)
    for cls in (each for each in of_type(unit, ir.ClassDef) if _stands_in(each, event.site)):
        for init in (each for each in cls.body if isinstance(each, ir.FunctionDef) and each.name == "__init__"):
            off = {param.name for param in init.params if _is_zero(param.default)} & _kept_from(init, field)
            if off and not any(_gives(unit, call, cls.name, init, off) for call in makers):
                return True
    return False


def _kept_from(init: ir.FunctionDef, field: str) -> set[str]:
    kept = (each for each in walk(init.body, into_functions=False) if isinstance(each, ir.Assign))
    return {name for each in kept if each.value is not None and _keeps(each, field) for name in _names(each.value)}


def _stands_in(cls: ir.ClassDef, site: Site) -> bool:
    return any(getattr(part, "at", None) == site.at for part in walk(cls.body, True))


def _keeps(node: ir.Assign, name: str) -> bool:
    return node.value is not None and any(dotted(target) == name for target in node.targets)


def _is_zero(node: ir.Expr | None) -> bool:
    return isinstance(node, ir.Constant) and isinstance(node.value, (int, float)) and not node.value


def _gives(unit: ir.Unit, call: ir.Call, cls: str, init: ir.FunctionDef, wanted: set[str]) -> bool:
    """Whether a call that makes such a module, or one of a class above it, gives the rate: not where it hands on an
    argument that is zero by default as well."""
    params = [param.name for param in init.params[1:]]
    is_named = last_name(call.callee) == cls
    for index, arg in enumerate(call.args):
        place = arg.keyword or (params[index] if is_named and index < len(params) else "")
        if place in wanted and not _is_zero(arg.value) and not _is_handed_on(unit, call, arg.value):
            return True
    return False


def _is_handed_on(unit: ir.Unit, call: ir.Call, value: ir.Expr) -> bool:
    if not isinstance(value, ir.Name):
        return False
    around = [each for each in of_type(unit, ir.FunctionDef) if each.at <= call.at <= each.last]
    params = [param for each in around[-1:] for param in each.params if param.name == value.id]
    return any(_is_zero(param.default) for param in params)


def _only_trains(program: Program, event: Dropped, function: ir.FunctionDef) -> bool:
    """Whether the file trains what drops out, evaluates another network, and never this one: a discriminator."""
    name = program.class_around(Site(event.site.path, function.at))
    made = {
        number
        for number, obj in enumerate(program.objects)
        if obj.cls is not None and obj.cls.node.name == name and obj.cls.path == event.site.path
    }
    if next(iter(program.modules), "") == event.site.path and name and _only_trains_elsewhere(program, event, name):
        return True
    switches = [switch for switch in program.of(Mode) if switch.is_eval != "no"]
    trained = frozenset(part for each in program.of(OptimizerMade) for part in each.parts)
    if not (made & trained) or not switches or any(switch.module is None for switch in switches):
        return False
    return not any(made & switch.modules for switch in switches)


def _only_trains_elsewhere(program: Program, event: Dropped, name: str) -> bool:
    """The same of a class whose file only defines networks, by what the files that import it do with what they make of
    it: an optimizer for its parameters, and ``eval()`` for other networks alone."""
    users = [_Use.of(program, path, name) for path in program.project.importers(name, event.site.path)]
    users = [use for use in users if use.made]
    return (
        bool(users)
        and all(use.made & use.trained and use.evaluated for use in users)
        and not any(use.made & use.evaluated or not use.evaluated <= use.bound for use in users)
    )


class _Use(NamedTuple):
    """What one file does with the networks that it makes, by the names that it gives them."""

    made: frozenset[str]
    bound: frozenset[str]
    trained: frozenset[str]
    evaluated: frozenset[str]

    @classmethod
    def of(cls, program: Program, path: str, name: str) -> _Use:
        """Of the class of a name; `bound` are all names that get the result of a call."""
        unit = program.unit(path)
        made, bound, methods = set[str](), set[str](), dict[str, set[str]]()
        for assign in of_type(unit, ir.Assign):
            value = assign.value if isinstance(assign.value, ir.Call) else None
            named = {dotted(target) or "" for target in assign.targets}
            bound |= named if value is not None else set()
            parts = walk((ir.Evaluate(assign.at, value),), False) if value is not None else ()
            callees = {dotted(part.callee) or "" for part in parts if isinstance(part, ir.Call)}
            made |= named if any(callee.rpartition(".")[2] == name for callee in callees) else set()
        for call in of_type(unit, ir.Call):
            if isinstance(call.callee, ir.Attribute):
                methods.setdefault(call.callee.attr, set()).add(dotted(call.callee.value) or "")
        asked = (frozenset(methods.get(method, ())) for method in ("parameters", "eval"))
        return cls(frozenset(made), frozenset(bound), *asked)


def _is_said(program: Program, event: Dropped) -> bool:
    """Whether a comment or docstring of the file says that it is meant, as for the prenet of Tacotron 2."""
    return bool(_MEANT.search(program.project.read(event.site.path) or b""))


_MESSAGES = {
    "function": "`{callee}` without `training=` {{does drop}} out in evaluation as well: `eval()` does not reach it. "
    "Pass `training=self.training`.",
    "attention": "`{callee}` {{does drop}} out at this rate in evaluation as well: `eval()` does not reach it. Pass "
    "the rate `if self.training else 0.0`.",
    "layer": "This `{callee}` is made anew in every forward pass, in training mode: it {{does drop}} out in evaluation "
    "as well. Make it in `__init__`.",
}


def _functions(program: Program, event: Dropped, function: ir.FunctionDef) -> Iterator[ir.FunctionDef]:
    """The function that drops out, and those that call it on the way (``if self.training: x = self.augment(x)``)."""
    yield function
    for call in event.calls[1:]:
        around = program.function_around(call)
        if around is not None:
            yield around


def _asks_for_mode(function: ir.FunctionDef) -> bool:
    """Whether a function reads ``.training`` for something other than to hand it on as an argument, or to compare it
    with a word (``args.training == "distilled"``): then it is no mode."""
    handed: set[int] = set()
    asked: dict[str, set[int]] = {}
    options: set[str] = set()
    for node in walk(function.body, into_functions=True):
        if isinstance(node, ir.Call):
            handed |= {arg.value.at for arg in node.args if isinstance(arg.value, ir.Attribute)}
        elif isinstance(node, ir.Operation) and node.right is not None:
            sides = (node.left, node.right)
            options |= {spelled(side) for side in sides if any(map(_is_word, sides))}
        elif isinstance(node, ir.Attribute) and node.attr == "training":
            asked.setdefault(spelled(node), set()).add(node.at)
    return any(places - handed for name, places in asked.items() if name not in options)


def _is_word(node: ir.Expr) -> bool:
    """``"distilled"``, ``["distilled", "plain"]``."""
    items = node.items if isinstance(node, ir.Display) else (node,)
    return bool(items) and all(isinstance(each, ir.Constant) and isinstance(each.value, str) for each in items)


def _is_used_here(function: ir.FunctionDef, event: Dropped) -> bool:
    """Whether a layer is called where it is made, or bound to a variable of the function."""
    for node in walk(function.body, into_functions=True):
        if isinstance(node, ir.Call) and node.callee.at == event.site.at:
            return True
        if isinstance(node, ir.Assign) and node.value is not None and node.value.at == event.site.at:
            return isinstance(node.targets[0], ir.Name)
    return False


def _is_chosen(event: Dropped, function: ir.FunctionDef) -> bool:
    """Whether an argument of the function decides: about the branch, or about the rate."""
    params = {param.name for param in function.params} - {event.owner}
    wanted = {guard.site.at for guard in event.guards if guard.site.path == event.site.path}
    for node in walk(function.body, into_functions=True):
        if isinstance(node, ir.If) and node.at in wanted and _names(node.test) & params:
            return True
        if isinstance(node, ir.Call) and node.at == event.site.at and len(event.calls) < 2:  # or else callers were seen
            rates = [arg.value for arg in node.args if arg.value.at == event.rate_at]
            if any(_names(rate) & params for rate in rates):
                return True
    return False


def _is_given(program: Program, event: Dropped) -> bool:
    """Whether the rate comes, from function to function, out of an argument of a ``forward`` or of the first of them:
    whoever calls the module says how much drops out, and may say nothing of it in evaluation."""
    names = _names_at(program, Site(event.site.path, event.rate_at)) if event.rate_at is not None else set()
    function = program.function_around(event.site)
    for call in (*reversed(event.calls[1:]), None):
        params = [param.name for param in function.params] if function is not None else []
        if function is None or not names & set(params[_is_method(function) :]):
            return False
        node = words(program).node(call) if call is not None else None
        if call is None or function.name == "forward":
            return True
        if not isinstance(node, ir.Call):
            return False
        names = _given_for(node, params[_is_method(function) :], names)
        function = program.function_around(call)
    return False


def _is_method(function: ir.FunctionDef) -> bool:
    return bool(function.params) and function.params[0].name == "self"


def _given_for(call: ir.Call, params: list[str], wanted: set[str]) -> set[str]:
    """The names in what a call gives the parameters that are wanted."""
    places = [arg.keyword or params[index] for index, arg in enumerate(call.args) if arg.keyword or index < len(params)]
    pairs = zip(places, call.args, strict=False)
    return {name for place, arg in pairs if place in wanted for name in _names(arg.value)}


def _names_at(program: Program, site: Site) -> set[str]:
    node = words(program).node(site)
    return _names(node) if isinstance(node, ir.Expr) else set()


def _is_decided(event: Dropped, function: ir.FunctionDef) -> bool:
    """Whether an argument of the function decides which rate it is: ``if not training: rate = 0.0``."""
    params = {param.name for param in function.params} - {event.owner}
    nodes = tuple(walk(function.body, into_functions=True))
    calls = (node for node in nodes if isinstance(node, ir.Call) and node.at == event.site.at)
    given_to = (arg.value for node in calls for arg in node.args if arg.value.at == event.rate_at)
    rates = {value.id for value in given_to if isinstance(value, ir.Name)}
    for node in nodes:
        given: Iterator[object] = iter(())
        if isinstance(node, ir.If) and _names(node.test) & params:
            given = walk((*node.body, *node.orelse), into_functions=False)
        elif (
            isinstance(node, ir.Assign) and isinstance(node.value, ir.Conditional) and _names(node.value.test) & params
        ):
            given = iter((node,))
        chosen = (each for each in given if isinstance(each, ir.Assign))
        if any(isinstance(target, ir.Name) and target.id in rates for each in chosen for target in each.targets):
            return True
    return False


def _names(expr: ir.Expr) -> set[str]:
    found = walk((ir.Evaluate(expr.at, expr),), into_functions=False)
    return {node.id for node in found if isinstance(node, ir.Name)}


def _fix(event: Dropped) -> DraftFix | None:
    if event.owner is None:
        return None
    flag = f"{event.owner}.training"
    if event.how == "function" and event.last_at is not None:
        return DraftFix(f"Pass `training={flag}`", "unsafe", (InsertAfter(event.last_at, f", training={flag}"),))
    if event.how == "attention" and event.rate_at is not None:
        edit = InsertAfter(event.rate_at, f" if {flag} else 0.0")
        return DraftFix("No dropout in evaluation", "unsafe", (edit,))
    return None
