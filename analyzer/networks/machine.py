"""Calls and objects: a constructor or a `forward` is run step by step, with a budget of steps and of depth."""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, KeysView, Sequence, ValuesView
from functools import cached_property
from typing import Any

from analyzer.engine.sources import Sources
from analyzer.networks import creation, neural, operations, pooling, python, reductions
from analyzer.networks.expressions import Frame
from analyzer.networks.statements import GO, Statements
from analyzer.networks.values import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Missing,
    Partial,
    Space,
    Spent,
    Stuck,
    Super,
    Tensor,
)
from analyzer.networks.world import MISSING, Globals, World, lineage
from analyzer.syntax import ir

MAX_STEPS = 600_000
MAX_DEPTH = 60
_CONTAINERS = (
    "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.ParameterList",
    "torch.nn.ParameterDict",
)  # fmt: skip
_SPACES = (
    "types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "addict.Dict", "omegaconf.OmegaConf.create",
    "ml_collections.ConfigDict", "box.Box",
)  # fmt: skip
_MODULES = frozenset(["LightningModule", "PyTorchModelHubMixin", "PreTrainedModel", "ScriptModule"])
"""Classes of libraries that are modules themselves."""
_WEIGHT_NORMS = ("torch.nn.utils.weight_norm", "torch.nn.utils.parametrizations.weight_norm")
_SPECTRAL_NORMS = ("torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.spectral_norm")
_QUIET = ("torch.nn.init.", "torch.manual_seed", "logging.", "warnings.", "os.environ", "torch.compile", "torch.jit.")
REGISTERED = (creation, neural, pooling, reductions)
"""Their operations are known once they are imported."""


class Machine(Statements):
    """See the module."""

    def __init__(self, sources: Sources, steps: int = MAX_STEPS) -> None:
        super().__init__(World(sources, self._global_value), steps)
        self.depth = 0

    def _global_value(self, expr: ir.Expr, home: Globals) -> object:
        return self.value(expr, Frame(home))

    # --- calls ------------------------------------------------------------------------------------------------

    def call(self, callee: object, args: list[object], keywords: dict[str, object], frame: Frame) -> object:
        self.spend()
        if isinstance(callee, Missing):
            return callee
        if isinstance(callee, Function):
            return self.run(callee, args, keywords)
        if isinstance(callee, Bound):
            return self.call(callee.func, [callee.this, *args], keywords, frame)
        if isinstance(callee, Partial):
            return self.call(callee.func, [*callee.args, *args], {**callee.keywords, **keywords}, frame)
        if isinstance(callee, Class):
            return self.instantiate(callee, args, keywords)
        if isinstance(callee, Instance):
            return self.call_object(callee, args, keywords, frame)
        if isinstance(callee, External):
            return self._call_external(callee, args, keywords, frame)
        if callable(callee):  # a method of a list, dict or string, or one of ours
            return self._call_python(callee, args, keywords)
        return Missing("a call of something that is no function")

    def _call_python(self, callee: Callable[..., object], args: list[object], keywords: dict[str, object]) -> object:
        try:
            result = callee(*args, **keywords)
        except (Stuck, Spent):
            raise
        except Exception:  # noqa: BLE001  whatever the program would do there, its value is not in the text
            return Missing("a call with such values")
        return python.bounded(list(result) if isinstance(result, (ItemsView, KeysView, ValuesView)) else result)

    def _call_external(self, callee: External, args: list[object], keywords: dict[str, object], frame: Frame) -> object:
        name = callee.name
        if (layer := self.world.library(name)) is not None:
            return self.call(layer, args, keywords, frame)
        try:
            special = self._special(name, args, keywords, frame)
        except IndexError:
            return Missing(f"`{name}` with too few arguments")
        if special is not MISSING:
            return special
        known = python.known_call(name, args, keywords)
        if known is not MISSING:
            return known
        if name.startswith(("torch.", "einops.")) or name in ("rearrange",):
            found = operations.find(name if name != "einops.repeat" else "einops_repeat")
            if found is not None and not name.startswith(_QUIET):
                return self._call_operation(found, args, keywords)
        if name.startswith(_QUIET):
            return args[0] if args else None
        return Missing(f"`{name}` is not in the repository")

    def _call_operation(
        self, found: operations.Operation, args: Sequence[object], keywords: dict[str, object]
    ) -> object:
        if "input" in keywords and not any(isinstance(arg, Tensor) for arg in args[:1]):
            keywords = dict(keywords)
            args = [keywords.pop("input"), *args]
        try:
            return found(self.tape, *args, **keywords)
        except Stuck as stuck:
            if self.building:  # a constructor goes on: what it could not make is missing
                return Missing(stuck.reason)
            raise
        except (TypeError, ValueError, IndexError, KeyError, OverflowError, ZeroDivisionError):
            raise Stuck("a call with other arguments than are known") from None

    def _special(self, name: str, args: list[object], keywords: dict[str, object], frame: Frame) -> object:
        """Calls that need the machine: they call something themselves, or look at names."""
        special = self._specials.get(name)
        if special is not None:
            return special(args, keywords, frame)
        if name in _SPACES:
            return Space({**(args[0] if args and isinstance(args[0], dict) else {}), **keywords})
        return MISSING

    @cached_property
    def _specials(self) -> dict[str, Callable[[list[Any], dict[str, Any], Frame], object]]:
        return {
            "super": self._super, "torch.nn.Parameter": lambda args, keywords, frame: _parameter(args, keywords),
            "functools.partial": lambda args, keywords, frame: Partial(args[0], tuple(args[1:]), keywords),
            "functools.reduce": lambda args, keywords, frame: self._reduce(args, frame),
            "map": self._map, "getattr": self._getattr, "setattr": self._setattr,
            "hasattr": lambda args, keywords, frame: self._has(args[0], _text(args[1])),
            "torchvision.models.get_model": lambda args, keywords, frame: (
                self.call(External(f"torchvision.models.{_text(args[0])}"), args[1:], keywords, frame)
            ),
            "type": lambda args, keywords, frame: (
                args[0].cls if isinstance(args[0], Instance) else External(type(args[0]).__name__)
            ),
            "copy.deepcopy": lambda args, keywords, frame: self.copied(args[0]),
            **dict.fromkeys(_WEIGHT_NORMS, self._normed), **dict.fromkeys(_SPECTRAL_NORMS, self._unchanged),
            "torch.utils.checkpoint.checkpoint": self._checkpoint, "object": lambda args, keywords, frame: None,
        }  # fmt: skip

    def _super(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        after = args[0] if args else frame.owner
        this = args[1] if len(args) > 1 else frame.this
        return Super(this, after) if isinstance(after, Class) else Missing("`super()` outside of a class")

    def _map(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        items = self.items(args[1]) if len(args) == 2 else None
        if items is None:
            return Missing("what is mapped over")
        return [self.call(args[0], [each], {}, frame) for each in items]

    def _getattr(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        found = args[0] if isinstance(args[0], Missing) else self.get(args[0], _text(args[1]))
        if found is not MISSING:
            return found
        return args[2] if len(args) > 2 else Missing(f"`{_text(args[1])}` is not set")

    def _has(self, value: object, name: str) -> object:
        return value if isinstance(value, Missing) else self.get(value, name) is not MISSING

    def _setattr(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        self.set(args[0], _text(args[1]), args[2])
        return None

    def _normed(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        """``weight_norm``: the weight as a direction and one length per output, both trained."""
        weight = self.get(args[0], str(args[1] if len(args) > 1 else keywords.get("name", "weight")))
        if isinstance(args[0], Instance) and isinstance(weight, Tensor) and weight.shape:
            args[0].fields["weight_g"] = Tensor(weight.shape[:1], is_parameter=True, is_full=True)
        return args[0]

    def _unchanged(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        """``spectral_norm``: its vectors are buffers."""
        return args[0]

    def _checkpoint(self, args: list[Any], keywords: dict[str, Any], frame: Frame) -> object:
        """``checkpoint(function, *args)``: of what it does only its arguments stay."""
        own = {name: each for name, each in keywords.items() if name not in ("use_reentrant", "preserve_rng_state")}
        with self.tape.checkpointed(args[1:]):
            return self.call(args[0], args[1:], own, frame)

    def _reduce(self, args: list[object], frame: Frame) -> object:
        items = self.items(args[1])
        if items is None:
            return Missing("what is reduced")
        total = args[2] if len(args) > 2 else items.pop(0) if items else None
        for item in items:
            total = self.call(args[0], [total, item], {}, frame)
        return total

    def call_object(self, this: Instance, args: list[object], keywords: dict[str, object], frame: Frame) -> object:
        """A module's `forward`, another object's `__call__`."""
        name = "forward" if this.is_module else "__call__"
        found = self.get(this, name)
        if found is MISSING:
            return Missing(f"`{this.cls.node.name}.{name}` is not in the text")
        return self.call(found, args, keywords, frame)

    def run(self, func: Function, args: Sequence[object], keywords: dict[str, object]) -> object:
        """A function of the program."""
        if self.depth >= MAX_DEPTH:
            raise Spent
        frame = Frame(func.home, func.around, func.owner, args[0] if func.owner is not None and args else None)
        gap = self._bind_params(func, list(args), dict(keywords), frame)
        if gap is not None:
            return gap
        self.depth += 1
        try:
            if isinstance(func.node, ir.Lambda):
                return self.value(func.node.body, frame)
            if func.node.is_generator:
                return self._generated(func.node, frame)
            result = self.block(func.node.body, frame)
            return None if result is GO else result
        finally:
            self.depth -= 1

    def _generated(self, node: ir.FunctionDef, frame: Frame) -> object:
        return Missing(f"`{node.name}` is a generator")

    def _bind_params(
        self, func: Function, args: list[object], keywords: dict[str, object], frame: Frame
    ) -> Missing | None:
        hidden = keywords.pop("**", None)
        for param in func.node.params:
            if param.kind == "*":
                frame.locals[param.name] = tuple(args)
                args = []
            elif param.kind == "**":
                frame.locals[param.name] = keywords
                keywords = {}
            elif args and param.kind != "kw":
                frame.locals[param.name] = args.pop(0)
            elif param.name in keywords:
                frame.locals[param.name] = keywords.pop(param.name)
            elif hidden is not None:
                frame.locals[param.name] = hidden
            elif param.default is not None:
                outer = Frame(func.home, func.around, func.owner)
                frame.locals[param.name] = self.value(param.default, outer)
            else:
                frame.locals[param.name] = Missing(f"`{param.name}` is not given", func.home.path, param.at)
        if args:
            return Missing("more arguments than parameters", func.home.path, func.node.at)
        return None

    # --- objects ----------------------------------------------------------------------------------------------

    def instantiate(self, cls: Class, args: list[object], keywords: dict[str, object]) -> object:
        """An object of a class."""
        if self.depth >= MAX_DEPTH:
            raise Spent
        line = lineage(cls)
        made = Instance(cls, is_module=is_module(line))
        if any(isinstance(base, Class) and base.name in _CONTAINERS for base in line):
            made.items = []
        init = self.method_of(line, "__init__")
        if isinstance(init, Function):
            self.building.append(made)
            try:
                result = self.run(init, [made, *args], keywords)
            finally:
                self.building.pop()
            if isinstance(result, Missing):
                made.gaps.append(result)
        elif made.is_module and isinstance(init, Missing):
            made.gaps.append(init)
        else:
            self._fill(made, line, args, keywords)
        self._note_gaps(made)
        return made

    def _fill(self, made: Instance, line: Sequence[object], args: list[object], keywords: dict[str, object]) -> None:
        """The generated constructor of a dataclass, or one that takes whatever it is given."""
        given = list(args)
        for cls in reversed([each for each in line if isinstance(each, Class)]):
            for stmt in cls.node.body:
                if isinstance(stmt, ir.Assign) and stmt.annotation is not None and isinstance(stmt.targets[0], ir.Name):
                    name = stmt.targets[0].id
                    if given:
                        made.fields[name] = given.pop(0)
                    elif name in keywords:
                        made.fields[name] = keywords[name]
                    elif stmt.value is not None:
                        made.fields[name] = self._default(stmt.value, cls)
                    else:
                        made.fields[name] = Missing(f"`{name}` is not given", cls.home.path, stmt.at)
        made.fields.update({name: value for name, value in keywords.items() if name != "**"})
        post = self.method_of(line, "__post_init__")
        if isinstance(post, Function):
            self.run(post, [made], {})

    def _default(self, expr: ir.Expr, cls: Class) -> object:
        """A dataclass field's default: ``field(default=…)`` or ``field(default_factory=…)`` as well."""
        if isinstance(expr, ir.Call) and isinstance(expr.callee, (ir.Name, ir.Attribute)):
            name = expr.callee.id if isinstance(expr.callee, ir.Name) else expr.callee.attr
            if name in ("field", "Field", "ib"):
                for arg in expr.args:
                    if arg.keyword == "default":
                        return self.value(arg.value, Frame(cls.home, cls.around))
                    if arg.keyword in ("default_factory", "factory"):
                        frame = Frame(cls.home, cls.around)
                        return self.call(self.value(arg.value, frame), [], {}, frame)
        return self.value(expr, Frame(cls.home, cls.around))

    def _note_gaps(self, made: Instance) -> None:
        """What the text does not show of a module's parts: attributes that its methods call, sizes of its weights."""
        if not made.is_module:
            return
        called = {
            name
            for each in lineage(made.cls)
            if isinstance(each, Class)
            for stmt in each.node.body
            if isinstance(stmt, ir.FunctionDef)
            for name, how in stmt.uses.items()
            if "()" in how or "parameters" in how
        }
        for name, value in made.fields.items():
            if isinstance(value, Missing) and (made.cls.home.prefix or f"self.{name}" in called or _is_layer(value)):
                made.gaps.append(value)
        made.gaps += [item for item in made.items or () if isinstance(item, Missing)]


def _is_layer(value: Missing) -> bool:
    """Whether it is a class of torch that is not in our library: it has parameters, however its owner uses it."""
    return re.match(r"`torch\.nn\.(?:\w+\.)*[A-Z]\w*` is not in", value.reason) is not None


def _text(value: object) -> str:
    """The name of an attribute; one that is no text names none."""
    return value if isinstance(value, str) else ""


def is_module(line: Sequence[object]) -> bool:
    """Whether a class derives from ``torch.nn.Module`` (Lightning's modules do)."""
    for base in line:
        name = base.name if isinstance(base, (External, Class)) else ""
        if name == "torch.nn.Module" or name.rpartition(".")[2] in _MODULES:
            return True
    return False


def _parameter(args: Sequence[object], keywords: dict[str, object]) -> object:
    """``nn.Parameter(tensor)``."""
    given = args[0] if args else keywords.get("data", Tensor((0,)))
    if not isinstance(given, Tensor):
        return given if isinstance(given, Missing) else Missing("a parameter whose shape is not in the text")
    flag = args[1] if len(args) > 1 else keywords.get("requires_grad", True)
    return Tensor(given.shape, given.dtype, is_parameter=True, is_frozen=flag is False, is_full=True)
