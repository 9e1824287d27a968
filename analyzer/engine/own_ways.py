"""What a class does itself with what it keeps: registers it in another method, or hands it out in the place of
``nn.Module``; and moves of a parameter that give the parameter itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.values import Class, External
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, walk

_CHILDREN = frozenset(["named_children", "children", "named_modules"])
_REGISTERS = frozenset(["add_module", "register_module", "register_parameter", "register_buffer", "setattr"])
_HOLDERS = frozenset(["ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict"])
_HANDS_OUT = frozenset(["parameters", "named_parameters", "state_dict", "_apply", "to", "cuda", "modules", "children"])
_PLAIN_BASES = frozenset(["torch.nn.Module", "torch.nn.modules.loss._Loss", "object", "abc.ABC"])
_WEIGHTS = frozenset(["Parameter", "register_parameter", "add_module", "register_module", "setattr", "getattr"])
_PLACES = frozenset(["to", "cuda", "type_as", "npu", "xpu"])
_TYPES = frozenset(["dtype", "half", "double", "bfloat16", "long", "int", "type", "to"])
_SAME = frozenset(["requires_grad_", "contiguous"])
_NEW = frozenset(["ones", "zeros", "randn", "rand", "empty", "eye", "Tensor", "FloatTensor"])


def methods(cls: Class) -> Iterator[ir.FunctionDef]:
    """The methods that a class defines itself."""
    for node in cls.node.body:
        if isinstance(node, ir.FunctionDef):
            yield node


def uses_layers(cls: Class) -> bool:
    """Whether a module may have weights: a base is not known, it calls something that it keeps, or makes a parameter. A
    loss written as a module, which only computes, does not."""
    owners = list(_lineage(cls))
    bases = [base for owner in owners for base in owner.bases if not isinstance(base, Class)]
    if not all(isinstance(base, External) and base.name in _PLAIN_BASES for base in bases):
        return True
    own = {method.name for owner in owners for method in methods(owner)}
    for method in (each for owner in owners for each in methods(owner)):
        this = method.params[0].name if method.params else ""
        for node in walk(method.body, into_functions=True):
            if not isinstance(node, ir.Call):
                continue
            name = dotted(node.callee) or ""
            first, _, rest = name.partition(".")
            if name.rpartition(".")[2] in _WEIGHTS or (first == this and rest not in own):
                return True
            if not name and _is_of_own(node.callee, this):
                return True
    return False


def _is_of_own(node: ir.Expr, this: str) -> bool:
    """``self.layers[i]``, and what is called on it."""
    while isinstance(node, (ir.Attribute, ir.Subscript, ir.Call)):
        if isinstance(node, ir.Attribute) and isinstance(node.value, ir.Name):
            return node.value.id == this
        node = node.callee if isinstance(node, ir.Call) else node.value
    return False


def looks_after(cls: Class, name: str) -> bool:
    """Whether a method of the class, or of a base in the repository, registers what ``self.name`` holds, or one of
    those that ``nn.Module`` would be asked by hands it out."""
    for owner in _lineage(cls):
        for method in methods(owner):
            this = method.params[0].name if method.params else ""
            body = list(walk(method.body, into_functions=True))
            if not any(is_field(node, this, name) for node in body):
                continue
            if method.name in _HANDS_OUT or any(_registers(node, this, name) for node in body):
                return True
    return False


def puts_elsewhere(cls: Class, name: str) -> bool:
    """Whether ``__init__`` hands what it stores in ``self.name`` to a call that gets something else as well:
    ``set_module(net, path, layer)`` makes it a part of the other."""
    for method in (method for method in methods(cls) if method.name == "__init__" and method.params):
        this = method.params[0].name
        body = list(walk(method.body, into_functions=False))
        stored: set[str] = set()
        for node in body:
            if isinstance(node, ir.Assign) and isinstance(node.value, ir.Name):
                targets = (each.value for each in node.targets if isinstance(each, ir.Subscript))
                stored |= {node.value.id for target in targets if is_field(target, this, name)}
        calls = (node for node in body if isinstance(node, ir.Call) and len(node.args) > 1)
        if any(isinstance(arg.value, ir.Name) and arg.value.id in stored for call in calls for arg in call.args):
            return True
    return False


def is_field(node: object, this: str, name: str) -> bool:
    """Whether a node is ``self.name``."""
    return (
        isinstance(node, ir.Attribute)
        and node.attr == name
        and isinstance(node.value, ir.Name)
        and node.value.id == this
    )


def is_same_parameter(value: ir.Expr) -> bool:
    """Whether what follows ``nn.Parameter(…)`` gives the parameter itself: a move to the device, or to the type, that
    the tensor inside has already."""
    steps: list[ir.Call] = []
    node = value
    while isinstance(node, ir.Call) and isinstance(node.callee, ir.Attribute) and last_name(node.callee) != "Parameter":
        steps.append(node)
        node = node.callee.value
    if not isinstance(node, ir.Call) or last_name(node.callee) != "Parameter" or not node.args or not steps:
        return False
    inside = node.args[0].value
    calls = [part for part in walk((inside,), into_functions=True) if isinstance(part, ir.Call)]
    return all(_changes_nothing(step, calls) for step in steps)


def _changes_nothing(step: ir.Call, inside: list[ir.Call]) -> bool:
    name = last_name(step.callee)
    if name in _SAME:
        return True
    if name == "float":
        typed = any(arg.keyword == "dtype" for call in inside for arg in call.args)
        return (
            not typed
            and any(last_name(call.callee) in _NEW for call in inside)
            and not any(last_name(c.callee) in _TYPES for c in inside)
        )
    if name not in _PLACES:
        return False
    wanted = [_said(arg.value) for arg in step.args]
    moved = [[_said(arg.value) for arg in call.args] for call in inside if last_name(call.callee) == name]
    placed = [_said(arg.value) for call in inside for arg in call.args if arg.keyword == "device"]
    return None not in wanted and (wanted in moved or (len(wanted) == 1 and wanted[0] in placed))


def _said(node: ir.Expr) -> str | None:
    """A name or a constant as it is written."""
    return repr(node.value) if isinstance(node, ir.Constant) else dotted(node)


def _lineage(cls: Class) -> Iterator[Class]:
    work, seen = [cls], set[int]()
    while work:
        each = work.pop()
        if each.scope not in seen:
            seen.add(each.scope)
            yield each
            work += [base for base in each.bases if isinstance(base, Class)]


def _registers(node: object, this: str, name: str) -> bool:
    """``for m in self.name: self.add_module(…)``, ``setattr(self, …, self.name[0])``, ``nn.ModuleList(self.name)``."""
    if isinstance(node, ir.For) and isinstance(node.iter, ir.Call) and last_name(node.iter.callee) in _CHILDREN:
        calls = (
            part.callee
            for part in walk(node.body, True)
            if isinstance(part, ir.Call) and last_name(part.callee) in _REGISTERS
        )
        if any(dotted(callee) == f"{this}.{last_name(callee)}" for callee in calls):
            return True  # whose children these are, the loop around it says
    if isinstance(node, ir.For) and _mentions(node.iter, this, name):
        return any(isinstance(part, ir.Call) and last_name(part.callee) in _REGISTERS for part in walk(node.body, True))
    if isinstance(node, ir.Call) and last_name(node.callee) in _REGISTERS:
        return any(_mentions(arg.value, this, name) for arg in node.args)
    if isinstance(node, ir.Assign) and isinstance(node.value, ir.Call) and last_name(node.value.callee) in _HOLDERS:
        return _mentions(node.value, this, name) and any(isinstance(each, ir.Attribute) for each in node.targets)
    return False


def _mentions(node: ir.Expr, this: str, name: str) -> bool:
    return any(is_field(part, this, name) for part in walk((node,), into_functions=True))
