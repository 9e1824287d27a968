"""Losses of which no rule has anything to say, seen without running anything: what a layer of the module itself gives
(``self.classifier(x)``, a ``nn.Linear``) goes straight into a loss that takes raw numbers.

Libraries of networks are full of them: a ``forward`` that computes the loss where it is given labels. To run such a
method is to run the network. Whatever is not plain to see (a name with another value, a loss by another name, a target
in another shape, a file that speaks of filling) is no such loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, target_names, walk

_WORDS = re.compile(r"[lL]oss$|cross_entropy|CrossEntropy|nll_loss|NLLLoss|kl_div|KLDiv|criterion$")
"""How `analyzer.quiet` knows a loss by its name."""
_PADS = re.compile(rb"pad_i|PAD|<pad>|key_padding|pad_sequence")
"""Where labels may hold filling, what else is fed to the loss is no matter."""
_LOSSES = frozenset({"CrossEntropyLoss", "BCEWithLogitsLoss", "MSELoss", "L1Loss", "SmoothL1Loss"})
_FUNCTIONS = frozenset(
    {"cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
)
_OF_ONE_SHAPE = frozenset({"MSELoss", "L1Loss", "SmoothL1Loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
"""Those whose input and target must have one shape."""
_LAYERS = frozenset({"Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "LayerNorm"})
_KEEP = frozenset(
    {"to", "float", "long", "half", "double", "contiguous", "squeeze", "clone", "detach", "type", "clamp"}
)
_RESHAPE = _KEEP | frozenset(
    {"view", "reshape", "flatten", "unsqueeze", "transpose", "permute", "split", "chunk", "unbind", "masked_select"}
)
_MODULES = frozenset({"", "nn", "torch.nn", "F", "nn.functional", "torch.nn.functional"})
_CALLED = frozenset({"()"})
_DEPTH = 12


def plain_functions(unit: ir.Unit, source: bytes) -> frozenset[int]:
    """The numbers of the methods all of whose losses are plain, if there are any in them."""
    if _PADS.search(source):
        return frozenset()
    classes = {cls.name: cls for cls in of_type(unit, ir.ClassDef)}
    found = set()
    known: dict[tuple[str, int, int], bool] = {}
    for cls in classes.values():
        for method in cls.body:
            if isinstance(method, ir.FunctionDef) and _Method(method, cls, classes, known).is_plain():
                found.add(method.at)
    return frozenset(found)


class _Method:
    """A method, and what its variables and its object's attributes are given."""

    def __init__(
        self,
        node: ir.FunctionDef,
        cls: ir.ClassDef,
        classes: dict[str, ir.ClassDef],
        known: dict[tuple[str, int, int], bool],
    ) -> None:
        """`known`: what was found out of the expressions of a file, at a depth; each branch that gives a variable a
        value asks again for those of before."""
        self.node, self.cls, self.classes, self._known = node, cls, classes, known
        self.this = node.params[0].name if node.params else ""
        self.params = {param.name for param in node.params}

    def is_plain(self) -> bool:
        """Whether there are losses, and all of them are plain."""
        node = self.node
        if node.has_inner or node.is_generator or not self.this or not any(_is_word(name) for name in _names(node)):
            return False
        if not _is_straight(node):
            return False
        calls = [each for each in walk(node.body, False) if isinstance(each, ir.Call)]
        fine: set[int] = set()
        for call in calls:
            if _named(call.callee) in _LOSSES:
                fine.add(id(call.callee))
            elif self._loss_of(call) is not None:
                if not all(self._is_fed_plainly(call, loss) for loss in self._loss_of(call) or ()):
                    return False
                fine.add(id(call.callee))
        made = {id(call) for call in calls if _named(call.callee) in _LOSSES}
        if made - {id(value) for value in self._kept()}:
            return False
        if not fine:
            return False
        called = {id(call.callee) for call in calls} - fine
        parts = (each for each in walk(node.body, False) if isinstance(each, (ir.Name, ir.Attribute)))
        spoken = [each for each in parts if id(each) not in fine and _is_word(last_name(each))]
        return not any(id(each) in called or not last_name(each).endswith("loss") for each in spoken)

    def _kept(self) -> Iterator[ir.Expr]:
        """What becomes a variable that is only called."""
        for node in walk(self.node.body, False):
            if isinstance(node, ir.Assign) and len(node.targets) == 1 and node.value is not None:
                target = node.targets[0]
                if isinstance(target, ir.Name) and self.node.uses.get(target.id) == _CALLED:
                    yield node.value

    def _loss_of(self, call: ir.Call) -> tuple[str, ...] | None:
        """The losses that a call may compute; None where it is no loss."""
        if _named(call.callee) in _FUNCTIONS:
            return (_named(call.callee),)
        if not isinstance(call.callee, ir.Name) or call.callee.id in self.params:
            return None
        given = self._given(call.callee)
        names = tuple(_named(each.callee) if isinstance(each, ir.Call) else "" for each in given)
        if not any(name in _LOSSES for name in names):
            return None
        return names if all(name in _LOSSES for name in names) else ("",)

    def _is_fed_plainly(self, call: ir.Call, loss: str) -> bool:
        if not loss or any(arg.star for arg in call.args):
            return False
        given = {arg.keyword or str(index): arg.value for index, arg in enumerate(call.args)}
        value, target = given.get("input", given.get("0")), given.get("target", given.get("1"))
        if value is None or target is None or not self.is_raw(value, _DEPTH):
            return False
        return loss not in _OF_ONE_SHAPE or self._is_as_given(target, _DEPTH)

    def is_raw(self, value: ir.Expr, depth: int) -> bool:
        """Whether an expression is what a layer gives, in whatever shape."""
        key = ("raw", id(value), depth)
        if key not in self._known:
            self._known[key] = self._is_raw(value, depth)
        return self._known[key]

    def _is_raw(self, value: ir.Expr, depth: int) -> bool:
        if depth == 0:
            return False
        if isinstance(value, ir.Subscript):
            return self.is_raw(value.value, depth - 1)
        if isinstance(value, ir.Conditional):
            return self.is_raw(value.body, depth - 1) and self.is_raw(value.orelse, depth - 1)
        if isinstance(value, ir.Name):
            given = self._given(value)
            return bool(given) and all(each is not None and self.is_raw(each, depth - 1) for each in given)
        if not isinstance(value, ir.Call) or not isinstance(value.callee, ir.Attribute):
            return False
        callee = value.callee
        if isinstance(callee.value, ir.Name) and callee.value.id == self.this:
            return self._is_layer(callee.attr, depth - 1)
        return callee.attr in _RESHAPE and self.is_raw(callee.value, depth - 1)

    def _given(self, name: ir.Name) -> list[ir.Expr | None]:
        """What a variable may hold at a place; None for what cannot be said."""
        found, is_all = _reaching(self.node.body, name)
        return found if is_all else [*found, None]

    def _is_as_given(self, value: ir.Expr | None, depth: int) -> bool:
        """Whether a target is a parameter, in the shape that it came in."""
        key = ("given", id(value), depth)
        if key not in self._known:
            self._known[key] = self._came_in(value, depth)
        return self._known[key]

    def _came_in(self, value: ir.Expr | None, depth: int) -> bool:
        while isinstance(value, ir.Call) and isinstance(value.callee, ir.Attribute) and value.callee.attr in _KEEP:
            value = value.callee.value
        if not isinstance(value, ir.Name) or not depth:
            return False
        found, is_all = _reaching(self.node.body, value)
        return (is_all or value.id in self.params) and all(self._is_as_given(each, depth - 1) for each in found)

    def _is_layer(self, attr: str, depth: int) -> bool:
        """Whether an attribute holds a layer, or a module of this file that gives what one of its layers gives."""
        values = [
            node.value
            for method in self.cls.body
            if isinstance(method, ir.FunctionDef)
            for node in walk(method.body, False)
            if isinstance(node, ir.Assign) and any(_is_own(target, attr) for target in node.targets)
        ]
        return bool(values) and all(value is not None and self._gives_raw(value, depth) for value in values)

    def _gives_raw(self, value: ir.Expr, depth: int) -> bool:
        key = ("gives", id(value), depth)
        if key not in self._known:
            self._known[key] = self._makes_raw(value, depth)
        return self._known[key]

    def _makes_raw(self, value: ir.Expr, depth: int) -> bool:
        if isinstance(value, ir.Conditional):
            is_left_out = isinstance(value.orelse, ir.Call) and _named(value.orelse.callee) == "Identity"
            return self._gives_raw(value.body, depth) and (is_left_out or self._gives_raw(value.orelse, depth))
        if not isinstance(value, ir.Call):
            return False
        if _named(value.callee) in _LAYERS:
            return True
        cls = self.classes.get(value.callee.id) if isinstance(value.callee, ir.Name) else None
        if cls is None or depth <= 0:
            return False
        forward = next((each for each in cls.body if isinstance(each, ir.FunctionDef) and each.name == "forward"), None)
        if forward is None or not forward.params or not _is_straight(forward):
            return False
        returned = [node.value for node in walk(forward.body, False) if isinstance(node, ir.Return)]
        inside = _Method(forward, cls, self.classes, self._known)
        return bool(returned) and all(each is not None and inside.is_raw(each, depth - 1) for each in returned)


def _reaching(block: ir.Block, name: ir.Name) -> tuple[list[ir.Expr | None], bool]:
    """What a variable may have been given before a place in a block without loops, and whether that is all."""
    found: list[ir.Expr | None] = []
    index = max((at for at, each in enumerate(block) if each.at <= name.at), default=-1)
    if index < 0:
        return found, False
    inner = [part for part in _blocks(block[index]) if part and part[0].at <= name.at]
    if inner:
        found, is_all = _reaching(max(inner, key=lambda part: part[0].at), name)
        if is_all:
            return found, True
    for node in reversed(block[:index]):
        if isinstance(node, ir.Assign):
            if any(name.id in target_names(target) for target in node.targets):
                return [*found, node.value], True
            continue
        for part in walk((node,), False) if _blocks(node) else ():
            if isinstance(part, ir.Assign) and any(name.id in target_names(target) for target in part.targets):
                found.append(part.value)
    return found, False


def _blocks(node: ir.Stmt) -> tuple[ir.Block, ...]:
    if isinstance(node, ir.If):
        return (node.body, node.orelse)
    return (node.body,) if isinstance(node, ir.With) else ()


def _is_straight(function: ir.FunctionDef) -> bool:
    """Whether a function goes from its first line to its last, and only assignments give its variables something."""
    odd = (ir.For, ir.While, ir.Try, ir.Match, ir.Walrus, ir.Outer, ir.Import, ir.ImportFrom)
    return not function.has_inner and not any(isinstance(node, odd) for node in walk(function.body, False))


def _names(node: ir.FunctionDef) -> Iterator[str]:
    """The last names of what a function uses."""
    return (name.rpartition(".")[2] for name in node.uses)


def _is_own(target: ir.Expr, attr: str) -> bool:
    return isinstance(target, ir.Attribute) and target.attr == attr and isinstance(target.value, ir.Name)


def _is_word(name: str) -> bool:
    return _WORDS.search(name) is not None


def _named(callee: ir.Expr) -> str:
    """``CrossEntropyLoss`` of ``nn.CrossEntropyLoss``; nothing of what is no name of PyTorch's."""
    module, _, name = (dotted(callee) or "").rpartition(".")
    return name if module in _MODULES else ""
