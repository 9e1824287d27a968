"""Which names a function trains: what it calls to compute the loss that it runs backward through.

``loss = criterion(model(x), y); loss.backward()`` says of names that nothing else tells of that `model` is a module:
what comes first on the way to the loss. The last call on the way, of what others gave, may be the loss itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, target_names, walk

MAX_ON_THE_WAY = 200
"""Expressions that are followed back from a loss."""
_HOOKS = frozenset(["training_step"])
"""What these return is the loss (Lightning docs, `LightningModule.training_step`)."""
_PLAIN = frozenset(["len", "int", "float", "range", "zip", "list", "tuple", "dict", "next", "iter", "min", "max",
                    "enumerate", "tqdm", "Variable"])  # fmt: skip
_TRAINS = frozenset(["backward", "backward(…)", "manual_backward(…)", "step", "step(…)"])
"""One of these is called on a name where a function trains: ``criterion(net(x), y).backward()`` names no loss."""
_OF_NETWORKS = frozenset(["train", "eval", "parameters", "named_parameters", "state_dict"])
_PASSES_ON = frozenset(["backward", "manual_backward", "scale"])


@remembered(maxsize=2048)
def trained(node: ir.FunctionDef) -> frozenset[str]:
    """The names, plain or dotted, of what a function calls first on the way to a loss."""
    is_hook = node.name in _HOOKS
    if not is_hook and not any(how & _TRAINS for how in node.uses.values()):
        return frozenset()
    return _called_first(node, *_losses(node, is_hook, True))


@remembered(maxsize=2048)
def given_back(node: ir.FunctionDef) -> frozenset[str]:
    """The names of what a function calls first on the way to what it returns: a loss, if its caller trains on that."""
    return _called_first(node, *_losses(node, True, False))


def _losses(
    node: ir.FunctionDef, is_returned: bool, is_trained: bool
) -> tuple[list[ir.Expr], dict[str, list[ir.Expr]]]:
    """The losses of a function: what it returns, what it runs backward through; and what each name is given."""
    assigned: dict[str, list[ir.Expr]] = {}
    losses: list[ir.Expr] = []
    for each in walk(node.body, into_functions=False):
        if isinstance(each, ir.Assign) and each.value is not None:
            for target in each.targets:
                for name in target_names(target):
                    assigned.setdefault(name, []).append(each.value)
        elif isinstance(each, ir.Call) and isinstance(each.callee, ir.Attribute) and each.callee.attr in _PASSES_ON:
            given = [arg.value for arg in each.args[:1] if not arg.keyword]  # `retain_graph=True` is no loss
            losses += (given or [each.callee.value]) if is_trained else []
        elif isinstance(each, ir.Return) and each.value is not None and is_returned:
            losses.append(each.value)
    return losses, assigned


def _called_first(node: ir.FunctionDef, losses: list[ir.Expr], assigned: dict[str, list[ir.Expr]]) -> frozenset[str]:
    calls = tuple(_calls(losses, assigned))
    if not functional(node).isdisjoint(dotted(call.callee) or "" for call in calls):
        return frozenset()  # it trains no module: what gives the first state, or the parameters, is none either
    return frozenset(_first(calls, assigned)) - _makers(node, assigned)


def _makers(node: ir.FunctionDef, assigned: dict[str, list[ir.Expr]]) -> frozenset[str]:
    """What is called to make a network: ``model = Net(size)`` of what is put into a mode or has parameters."""
    networks = (name for name, how in node.uses.items() if how & _OF_NETWORKS)
    values = (value for name in networks for value in assigned.get(name, ()))
    return frozenset(dotted(value.callee) or "" for value in values if isinstance(value, ir.Call))


@remembered(maxsize=2048)
def functional(node: ir.FunctionDef) -> frozenset[str]:
    """What is called with the parameters, which the function hands to an optimizer, or of which it reads the gradients
    one by one: a plain function (``rnn(x, state, params)``; ``for p in params: p.grad.zero_()``; ``net(x, w, b)``;
    ``w.grad``). A module has its own. An input stands first, and its gradient is read as it is (``x.grad.sign()``)."""
    nodes = tuple(walk(node.body, into_functions=False))
    goes_over = {
        name: dotted(each.iter) for each in nodes if isinstance(each, ir.For) for name in target_names(each.target)
    }
    read = [each.value for each in nodes if isinstance(each, ir.Attribute) and each.attr == "grad"]
    lists = {dotted(each.value) for each in read if isinstance(each, ir.Subscript)}
    given = {goes_over.get(each.id, each.id) for each in read if isinstance(each, ir.Name)} | lists
    calls = [each for each in nodes if isinstance(each, ir.Call)]
    given |= {dotted(call.args[0].value) for call in calls if call.args and "optim." in (dotted(call.callee) or "")}
    found = (dotted(call.callee) for call in calls if {dotted(arg.value) for arg in call.args[1:]} & given - {None})
    return frozenset(name for name in found if name)


@remembered(maxsize=2048)
def feeds(node: ir.FunctionDef, name: str, others: frozenset[str]) -> bool:
    """Whether all of the others that are called get what a call of a name gave: ``criterion(model(x), y)``."""
    assigned: dict[str, list[ir.Expr]] = {}
    given: dict[str, list[ir.Expr]] = {}
    for each in walk(node.body, into_functions=False):
        if isinstance(each, ir.Assign) and each.value is not None:
            for target in each.targets:
                for bound in target_names(target):
                    assigned.setdefault(bound, []).append(each.value)
        elif isinstance(each, ir.Call) and dotted(each.callee) in others:
            given.setdefault(dotted(each.callee) or "", []).extend(arg.value for arg in each.args)
    return bool(given) and all(
        any(dotted(call.callee) == name for call in _calls(args, assigned)) for args in given.values()
    )


def _first(calls: Iterable[ir.Call], assigned: dict[str, list[ir.Expr]]) -> Iterator[str]:
    """What is called on something that no other call gave."""
    for call in calls:
        name = _network(call)
        if name and _is_plain(name):
            earlier = {_network(each) for each in _calls((arg.value for arg in call.args), assigned)}
            if not any(each and each != name and _is_plain(each) for each in earlier):
                yield name


def _calls(exprs: Iterable[ir.Expr], assigned: dict[str, list[ir.Expr]]) -> Iterator[ir.Call]:
    """The calls of names whose results the expressions are made of."""
    work, seen, budget = list(exprs), set[str](), MAX_ON_THE_WAY
    while work and budget:
        budget -= 1
        expr = work.pop()
        if isinstance(expr, ir.Name):
            if expr.id not in seen:
                seen.add(expr.id)
                work += assigned.get(expr.id, ())
        else:
            work += _parts(expr)
        if isinstance(expr, ir.Call):
            yield expr


def _parts(expr: ir.Expr) -> list[ir.Expr]:
    """What the value of an expression is made of."""
    if isinstance(expr, ir.Call):
        owner = [expr.callee.value] if isinstance(expr.callee, ir.Attribute) else []
        return [*owner, *(arg.value for arg in expr.args)]
    if isinstance(expr, ir.Operation):
        return [side for side in (expr.left, expr.right) if side is not None]
    if isinstance(expr, ir.Conditional):
        return [expr.body, expr.orelse]
    if isinstance(expr, ir.Comprehension):
        return [expr.element, *(clause.iter for clause in expr.clauses)]
    if isinstance(expr, ir.Display):
        return [*expr.items]
    return [expr.value] if isinstance(expr, (ir.Attribute, ir.Subscript, ir.Walrus)) else []


def _network(call: ir.Call) -> str:
    """What is called, by its name: `model` for ``model.forward(x)`` as well."""
    return (dotted(call.callee) or "").removesuffix(".forward")


def _is_plain(name: str) -> bool:
    """``model`` or ``self.model``; ``batch.to`` is a method of something, and ``len(…)`` gives no tensor."""
    return "." not in name.removeprefix("self.") and name not in _PLAIN
