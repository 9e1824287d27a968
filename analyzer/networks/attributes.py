"""Attributes of every kind of value: what a module registers, what a class holds, what a tensor can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from analyzer.knowledge.homes import public_name
from analyzer.networks import operations, python
from analyzer.networks.expressions import Expressions, Frame
from analyzer.networks.values import (
    Bound,
    Class,
    External,
    Function,
    Instance,
    Missing,
    Space,
    Super,
    Tensor,
)
from analyzer.networks.world import MISSING, Globals, lineage
from analyzer.syntax import ir

_PROPERTY = ("property", "cached_property", "functools.cached_property")
_SELF = (
    "to",
    "cuda",
    "cpu",
    "train",
    "eval",
    "float",
    "half",
    "double",
    "bfloat16",
    "apply",
    "share_memory",
    "type",
    "compile",
)
_NOTHING = (
    "register_forward_hook", "register_backward_hook", "load_state_dict", "save_hyperparameters", "log", "log_dict",
    "register_load_state_dict_pre_hook", "_register_load_state_dict_pre_hook", "post_init", "init_weights", "zero_grad",
    "reset_parameters", "register_forward_pre_hook",
)  # fmt: skip
"""Methods of modules that change nothing that is counted."""
_DTYPES = ("device", "grad", "is_cuda", "layout")


class Attributes(Expressions):
    """Reading and writing attributes."""

    def get(self, value: object, name: str) -> object:
        reader = self._readers.get(type(value))
        return python.method(value, name) if reader is None else reader(value, name)

    @cached_property
    def _readers(self) -> dict[type, Callable[[Any, str], object]]:
        return {
            Instance: self._of_instance, Tensor: self._of_tensor, External: self._of_external,
            Globals: self._of_globals,
            Class: lambda cls, name: self._of_class(lineage(cls), name), Super: self._of_super,
            Space: self._of_space, dict: self._of_dict, Function: _of_function,
        }  # fmt: skip

    def _of_external(self, value: External, name: str) -> object:
        dotted = public_name(f"{value.name}.{name}")
        cls = self.world.library_class(value.name)
        found = python.constant(dotted) if cls is None else self._of_class(lineage(cls), name)
        return External(dotted) if found is MISSING else found

    def _of_globals(self, value: Globals, name: str) -> object:
        found = value.find(name)
        below = self.world.module(name, value.path, 1) if found is MISSING else None
        return below if below is not None else found

    def _of_space(self, value: Space, name: str) -> object:
        return value.fields[name] if name in value.fields else python.method(value.fields, name)

    def _of_dict(self, value: dict[object, object], name: str) -> object:
        found = python.method(value, name)
        return found if found is not MISSING else value.get(name, MISSING)

    def set(self, owner: object, name: str, value: object) -> None:
        """``owner.name = value``."""
        if isinstance(owner, (Instance, Space)):
            if isinstance(owner, Instance) and owner.items and name in owner.fields:
                _replace(owner.items, owner.fields[name], value)
            owner.fields[name] = value
        elif isinstance(owner, Class):
            owner.attributes[name] = value
        elif isinstance(owner, dict):
            owner[name] = value
        elif isinstance(owner, Tensor) and name == "requires_grad" and owner.is_parameter:
            owner.is_frozen = value is False

    # --- objects ----------------------------------------------------------------------------------------------

    def _of_instance(self, this: Instance, name: str) -> object:
        if name in this.fields:
            return this.fields[name]
        if this.is_module and (registered := self._registering(this, name)) is not None:
            return registered
        line = lineage(this.cls)
        found = self._of_class(line, name)
        if isinstance(found, Function):
            return self._bound(found, this)
        if found is not MISSING:
            return found
        if name == "__class__":
            return this.cls
        if name == "training":
            return self.tape.is_training
        if not this.is_module:
            hidden = next((base for base in line if isinstance(base, Missing)), None)
            return hidden if hidden is not None else MISSING
        return self._of_module(this, name)

    def _bound(self, found: Function, this: object) -> object:
        names = self._decorators(found)
        if any(name in _PROPERTY for name in names):
            return self.call(found, [this], {}, Frame(found.home))
        return found if "staticmethod" in names else Bound(found, this)

    def _decorators(self, found: Function) -> list[str]:
        if isinstance(found.node, ir.Lambda):
            return []
        names: list[str] = []
        for decorator in found.node.decorators:
            if isinstance(decorator, ir.Name):
                names.append(decorator.id)
            elif isinstance(decorator, ir.Attribute):
                names.append(decorator.attr)
        return names

    def method_of(self, line: Sequence[object], name: str) -> object:
        """A method of the first class that has it; what is missing where a base that has it is not in the text."""
        for base in line:
            if isinstance(base, Class):
                found = self._own(base, name)
                if found is not MISSING:
                    return found
            elif isinstance(base, Missing):
                return base
        return MISSING

    def _of_class(self, line: Sequence[object], name: str) -> object:
        for base in line:
            if isinstance(base, Class):
                found = self._own(base, name)
                if found is not MISSING:
                    if isinstance(found, Function) and "classmethod" in self._decorators(found):
                        return Bound(found, line[0])
                    return found
        return MISSING

    def _own(self, cls: Class, name: str) -> object:
        """What a class's own body binds a name to."""
        if name in cls.attributes:
            return cls.attributes[name]
        found: object = MISSING
        for stmt in cls.node.body:
            if isinstance(stmt, ir.FunctionDef) and stmt.name == name:
                found = Function(stmt, cls.home, cls.around, cls)
            elif isinstance(stmt, ir.Assign) and stmt.value is not None and _names(stmt, name):
                found = cls.attributes[name] = self.value(stmt.value, Frame(cls.home, cls.around))
        return found

    def _of_super(self, value: Super, name: str) -> object:
        this = value.this
        cls = this.cls if isinstance(this, Instance) else this if isinstance(this, Class) else None
        if cls is None:
            return MISSING
        line = lineage(cls)
        at = next((i for i, base in enumerate(line) if isinstance(base, Class) and base.node is value.after.node), -1)
        rest = line[at + 1 :]
        found = self._of_class(rest, name)
        if isinstance(found, Function):
            return Bound(found, this)
        if found is not MISSING:
            return found
        if isinstance(this, Instance) and name == "__init__":
            return lambda *args, **keywords: self._base_init(this, rest)
        if isinstance(this, Instance) and this.is_module:
            registered = self._registering(this, name)
            return registered if registered is not None else self._of_module(this, name)
        return MISSING

    def _base_init(self, this: Instance, rest: Sequence[object]) -> None:
        hidden = next((base for base in rest if isinstance(base, Missing)), None)
        if hidden is not None:
            this.gaps.append(hidden)

    # --- modules ----------------------------------------------------------------------------------------------

    def _registering(self, this: Instance, name: str) -> Callable[..., object] | None:
        found: dict[str, Callable[..., object]] = {
            "register_buffer": lambda name, value=None, *_, **__: self._buffer(this, name, value),
            "register_parameter": lambda name, value=None: this.fields.__setitem__(name, value),
            "add_module": lambda name, child: self.add_child(this, name, child),
            "register_module": lambda name, child: self.add_child(this, name, child),
            "__setattr__": lambda name, value: self.set(this, name, value) if isinstance(name, str) else None,
            "__getattr__": lambda name: self.get(this, name) if isinstance(name, str) else MISSING,
            "__getattribute__": lambda name: self.get(this, name) if isinstance(name, str) else MISSING,
        }
        if this.items is not None:
            found |= {
                "append": lambda child: self.add_child(this, str(len(this.items or ())), child),
                "extend": lambda children: self._add_children(this, children),
                "insert": lambda at, child: this.items.insert(at, child) if this.items is not None else None,
            }
        return found.get(name)

    def _buffer(self, this: Instance, name: str, value: object) -> None:
        this.fields[name] = value
        this.buffers.add(name)

    def add_child(self, this: Instance, name: object, child: object) -> None:
        """Register a module under a name, in the place of the one that had it."""
        if not isinstance(name, (str, int)):  # a name that the text does not show is one of its own
            name = f"? {len(this.fields)}"
        before = this.fields.get(str(name), MISSING)
        this.fields[str(name)] = child
        if this.items is not None and (before is MISSING or not _replace(this.items, before, child)):
            this.items.append(child)

    def replace_item(self, this: Instance, index: int, child: object) -> None:
        """``container[index] = child``."""
        if this.items is None or not -len(this.items) <= index < len(this.items):
            return
        before = this.items[index]
        this.items[index] = child
        name = next((name for name, each in this.fields.items() if each is before), None)
        if name is not None:
            this.fields[name] = child

    def delete_items(self, this: Instance, index: object, gap: Missing) -> None:
        """``del container[index]``, of an index, a slice or a name; anything else may have taken any of them."""
        items = this.items or []
        if isinstance(index, str) and index in this.fields:
            gone = [this.fields[index]]
        elif isinstance(index, (int, slice)) and not isinstance(index, bool):
            try:
                taken = items[index]
            except (IndexError, TypeError, ValueError):
                this.gaps.append(gap)
                return
            gone = taken if isinstance(taken, list) else [taken]
        else:
            this.gaps.append(gap)
            return
        for child in gone:
            position = next((at for at, each in enumerate(items) if each is child), None)
            if position is not None:
                del items[position]
            name = next((name for name, each in this.fields.items() if each is child), None)
            if name is not None:
                del this.fields[name]

    def _add_children(self, this: Instance, children: object) -> None:
        for child in self.items(children) or ():
            self.add_child(this, str(len(this.items or ())), child)

    def _of_module(self, this: Instance, name: str) -> object:
        """What ``torch.nn.Module`` gives every module."""
        if name in ("parameters", "named_parameters"):
            return lambda *_, **__: self._parameters(this, is_named=name.startswith("named"))
        if name in ("modules", "named_modules"):
            inside = list(walk(this))
            return lambda *_, **__: [("", each) for each in inside] if name.startswith("named") else inside
        if name in ("children", "named_children"):
            found = list(children(this))
            names = {id(each): key for key, each in reversed(this.fields.items())}
            return lambda: [(names.get(id(each), ""), each) for each in found] if name.startswith("named") else found
        if name in _SELF:
            return lambda *_, **__: this
        if name == "requires_grad_":
            return lambda flag=True: self._freeze(this, flag is False)
        if name in ("values", "keys") and this.items is not None:
            return lambda: self.items(this) if name == "keys" else list(this.items or ())
        if name == "items" and this.items is not None:
            items = this.items
            return lambda: [(key, each) for key, each in this.fields.items() if any(each is item for item in items)]
        return (lambda *_, **__: None) if name in _NOTHING else MISSING

    def _freeze(self, this: Instance, is_frozen: bool) -> Instance:
        for _, each in parameters(this):
            each.is_frozen = is_frozen
        return this

    def _parameters(self, this: Instance, *, is_named: bool) -> list[object]:
        found = list(parameters(this))
        return [*found] if is_named else [each for _, each in found]

    def copied(self, value: object, known: dict[int, object] | None = None) -> object:
        """``copy.deepcopy``: modules and their parameters anew, each once."""
        known = {} if known is None else known
        if id(value) not in known:
            self.spend()
            known[id(value)] = self._copy(value, known)
        return known[id(value)]

    def _copy(self, value: object, known: dict[int, object]) -> object:
        if isinstance(value, Instance):
            made = Instance(value.cls, {}, value.is_module, None, set(value.buffers), list(value.gaps))
            known[id(value)] = made
            made.fields = {name: self.copied(child, known) for name, child in value.fields.items()}
            made.items = None if value.items is None else [self.copied(child, known) for child in value.items]
            return made
        if isinstance(value, Tensor):
            return Tensor(value.shape, value.dtype, value.is_parameter, value.is_frozen, value.is_grad, value.is_full)
        if isinstance(value, list):
            return [self.copied(each, known) for each in value]
        if isinstance(value, tuple):
            return tuple(self.copied(each, known) for each in value)
        if isinstance(value, dict):
            return {key: self.copied(each, known) for key, each in value.items()}
        return value

    # --- tensors ----------------------------------------------------------------------------------------------

    def _of_tensor(self, value: Tensor, name: str) -> object:
        measured = _measured(value, name)
        if measured is not MISSING:
            return measured
        if name in ("T", "mT"):
            return operations.OPERATIONS["T"](self.tape, value)
        if name in _LIKE:
            made = operations.OPERATIONS[_LIKE[name]]
            return lambda *args, **keywords: made(self.tape, *args, **keywords)
        found = operations.find(name)
        return MISSING if found is None else lambda *args, **keywords: found(self.tape, value, *args, **keywords)


_LIKE = {"new_zeros": "zeros", "new_ones": "zeros", "new_empty": "zeros", "new_full": "full", "new_tensor": "tensor"}


def _of_function(value: Function, name: str) -> object:
    return getattr(value.node, "name", "<lambda>") if name == "__name__" else MISSING


def _names(stmt: ir.Assign, name: str) -> bool:
    return any(isinstance(target, ir.Name) and target.id == name for target in stmt.targets)


def _measured(value: Tensor, name: str) -> object:
    """What is known of a tensor without computing anything."""
    if name == "shape":
        return value.shape
    if name in ("size", "dim", "ndimension", "numel", "nelement", "stride"):
        return lambda dim=None: _measure(value, name, dim)
    if name == "ndim":
        return len(value.shape)
    if name == "data":
        return Tensor(value.shape, value.dtype, kept=value.kept)
    if name == "dtype":
        return External("torch.float32" if value.is_full else "torch.float16")
    if name in _DTYPES:
        return External(f"torch.{name}")
    if name == "requires_grad":
        return value.needs_grad
    if name in ("item", "tolist", "numpy"):
        return lambda *_: Missing("a number computed when the program runs")
    if name == "register_hook":
        return lambda *_: None
    return MISSING


def _measure(value: Tensor, name: str, dim: object) -> object:
    if name == "size":
        return value.shape if dim is None else value.shape[dim] if isinstance(dim, int) else MISSING
    if name in ("dim", "ndimension"):
        return len(value.shape)
    return value.elements if name != "stride" else Missing("a stride")


def children(this: Instance) -> Iterator[Instance]:
    """The modules directly inside a module, each once, in the order they were registered."""
    seen: set[int] = set()
    for child in (*this.fields.values(), *(this.items or ())):
        if isinstance(child, Instance) and child.is_module and id(child) not in seen:
            seen.add(id(child))
            yield child


def walk(this: Instance) -> Iterator[Instance]:
    """A module and all modules inside it, each once."""
    return _walked(this, children)


def held(this: Instance) -> Iterator[Instance]:
    """As `walk`, with the modules in plain containers: torch does not register those, but a forward pass calls them."""
    return _walked(this, _attached)


def _walked(this: Instance, inside: Callable[[Instance], Iterator[Instance]]) -> Iterator[Instance]:
    seen: set[int] = set()
    pending = [this]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        pending += reversed(list(inside(one)))


def _attached(this: Instance) -> Iterator[Instance]:
    for value in (*this.fields.values(), *(this.items or ())):
        plain = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in plain if isinstance(each, Instance) and each.is_module)


def parameters(this: Instance) -> Iterator[tuple[str, Tensor]]:
    """The parameters of a module and those inside it, each once."""
    seen: set[int] = set()
    for one in walk(this):
        for name, value in one.fields.items():
            for each in value if isinstance(value, (list, tuple)) and one.items is not None else (value,):
                if isinstance(each, Tensor) and each.is_parameter and id(each) not in seen:
                    seen.add(id(each))
                    yield name, each


def _replace(items: list[object], before: object, after: object) -> bool:
    """Put a module in the place of another in a container."""
    for index, each in enumerate(items):
        if each is before:
            items[index] = after
            return True
    return False
