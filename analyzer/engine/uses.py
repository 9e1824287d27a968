"""What code does with a value that nobody showed us says what it is.

``.backward()`` is called on tensors with a graph, ``.parameters()`` on modules. The uses of a name count wherever the
name is handed on: to a parameter of a function that was read, to an attribute of ``self``, to another name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from analyzer.engine import measures
from analyzer.engine.data_events import Restored, reads_in
from analyzer.engine.graphs import roots_of
from analyzer.engine.machine import Machine
from analyzer.engine.state import GRAD_OFF, State
from analyzer.engine.trace import Gap, start
from analyzer.engine.trained import given_back, trained
from analyzer.engine.typing import (
    NOUNS,
    RUNS_BACKWARD,
    given_modules,
    given_optimizers,
    has_blank,
    has_model,
    is_argument,
    is_blank,
    is_called_optimizer,
    is_loss_by_use,
    kind_by_use,
)
from analyzer.engine.values import Class, Func, Method, ObjectId, PyModule, Ref, Tensor, Tri, Unknown, Value, union
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.scope import ASSIGNED, HANDED, dotted

_NO_USES: frozenset[str] = frozenset()
_CALLED = frozenset({"()", "forward(…)"})
MAX_HANDS = 3
"""How many times a value is followed from hand to hand."""


def _no_data(case: Value) -> Value:
    """What a generator gives and a backward pass starts from is no batch, but a loss."""
    if isinstance(case, Tensor) and case.is_batch and case.is_opaque and not case.roots:
        return replace(case, is_batch=False, graph="maybe")
    return case


@lru_cache(maxsize=8192)
def hands(uses: frozenset[str]) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """Where a value goes: the name that it gets, or what it is handed to, part by part, and as which argument."""
    found: list[tuple[str, tuple[str, ...], str]] = []
    for use in uses:
        if use[:1] == ASSIGNED:
            found.append((use[1:], (), ""))
        elif use[:1] == HANDED:
            callee, _, position = use[1:].rpartition("#")
            found.append(("", tuple(callee.split(".")), position))
    return tuple(found)


def _unread_owner(value: Value) -> Unknown | None:
    """What an attribute was read of (``scaler = args.scaler``) that nobody showed us."""
    if type(value) is not Method:
        return None
    owner = value.receiver.receiver if isinstance(value.receiver, Method) else value.receiver
    return owner if isinstance(owner, Unknown) and is_blank(owner) else None


class Uses(Machine):
    """Kinds by use."""

    def lookup(self, name: str, state: State) -> Value | None:
        """What a variable holds, found from the innermost scope outwards."""
        scope: ObjectId | None = self.frames[-1].scope
        held, below, parents, later = state.held, state.base.by_object, self.parents, self.later
        asked = state.base.asked
        is_noted = asked.head is not None
        while scope is not None:  # `State.get`, written out: names are what a program has most of
            fields = held.get(scope)
            value = fields.get(name) if fields is not None else None
            if value is None:
                fields = below.get(scope)
                value = fields.get(name) if fields is not None else None
            if value is None and scope in later:
                value = self.imported(scope, name, state)
            if value is not None:
                if is_noted:
                    asked.read.add((scope, name, id(value)))
                return value
            if is_noted:
                asked.absent.add((scope, name))
            scope = parents.get(scope)
        return None

    def by_use(self, target: ir.Expr, value: Value, at: int, state: State) -> Value:
        """A value that is about to get a name, with what the uses of that name say of it."""
        name = dotted(target)
        if name is None:
            return value
        if has_blank(value) and (kind := self.kind_of_name(name, state) or self.kind_of_read(name, value)):
            return self.as_kind(kind, name, value, at, state)
        uses = self.uses_of(name)
        owner = _unread_owner(value)
        if owner is not None and (kind := kind_by_use(uses)) not in {None, "Stepper"}:
            return self.as_kind(kind, name, owner, at, state)
        if is_loss_by_use(uses) or (type(value) is Unknown and self.is_handed_as_loss(value, uses, state)):
            return self.as_loss_by_use(value, at, state)
        return value

    def added_to_loss(self, node: ir.Augment, value: Value, state: State) -> Value:
        """What is added to a loss that gradients are computed of (``loss = 0``, then ``loss += f(model(x), y)`` of a
        function that was not read): it has a graph."""
        name = dotted(node.target) if node.op == "+" and any(map(roots_of, value.cases)) else None
        is_loss = name is not None and is_loss_by_use(self.uses_of(name))
        return self.as_loss_by_use(value, node.value.at, state) if is_loss else value

    def as_loss_by_use(self, value: Value, at: int, state: State) -> Value:
        """A value that gradients are computed of."""
        site, root, is_off = self.site(at), self.root(at), state.flag(*GRAD_OFF)
        if is_off:
            return value  # the name is that of a loss that is trained elsewhere; here gradients are switched off
        graph: Tri = "maybe" if is_off is None else "yes"

        def tensor(case: Value) -> Value:
            if isinstance(case, Method) and isinstance(case.receiver, Unknown):
                case = case.receiver  # ``model(x).loss`` of a model that was not read
            is_unread = isinstance(case, Unknown) or (isinstance(case, Tensor) and case.is_opaque)
            if is_unread and not measures.marks_of(case):
                case = next(iter(measures.marked(case, measures.Mark.LOSS).cases))
            trace = start(site, "`.backward()` is called on this: it carries a graph")
            if isinstance(case, Unknown):
                return Tensor(graph, case.roots | {root}, case.via, trace=trace)
            case = _no_data(case)
            if isinstance(case, Tensor) and case.graph == "maybe":
                return replace(case, graph=graph, roots=case.roots | {root}, trace=trace)
            return case

        return union(tensor(case) for case in value.cases)

    def kind_of_read(self, name: str, value: Value) -> str | None:
        """What ``torch.load`` gave, or a part of it, and what is called is a module: nothing else in a file can be."""
        return "Module" if reads_in(value.cases) and "()" in self.uses_of(name) else None

    def is_handed_as_loss(self, value: Unknown, uses: frozenset[str], state: State) -> bool:
        """Whether what unseen code gave is handed to a function that runs ``backward()`` on it."""
        if value.gap is not Gap.UNSEEN or not any(callee for _, callee, _ in hands(uses)):
            return False
        return any(map(is_loss_by_use, self.handed_on(uses, state, 1)))

    def as_kind(self, kind: str, name: str, value: Value, at: int, state: State) -> Value:
        """A value that is used as an object of a kind."""
        note, modules = f"used as {NOUNS[kind]}", given_modules(value)
        same = modules if kind == "Module" else given_optimizers(value) if kind == "Optimizer" else frozenset()
        held = self.held_as(name, state) if len(same) == 1 else None
        if isinstance(held, Ref) and same == {held.obj}:
            return held  # ``model = wrap(model)``
        born = "argument" if any(is_argument(case) for case in value.cases) else "unseen"
        steps: frozenset[ObjectId] = modules if kind in ("Optimizer", "Stepper") else frozenset()
        ref = self.create(("use", name), at, kind, note, gap=Gap.CONVENTION, born=born, modules=steps)
        made = next((case for case in value.cases if isinstance(case, Unknown)), None)
        is_made = made is not None and len(value.cases) == 1 and made.called[:1] not in ("", ".")
        if is_made and made is not None and made.trace is not None and not modules:
            self.made_by[ref.obj] = made.trace.site
        if read := reads_in(value.cases):
            self.emit(Restored, at, start(self.site(at), f"what was read is {note}"), read=read)
        return union(ref if is_blank(case) else case for case in value.cases)

    def held_as(self, name: str, state: State) -> Value | None:
        """What a name, or an attribute of ``self``, holds now."""
        this, attr = self.frame.this, name.removeprefix("self.")
        if attr == name:
            return self.lookup(name, state)
        return state.get((this.obj, attr)) if isinstance(this, Ref) else None

    def undefined(self, name: str, at: int, state: State) -> Value | None:
        """A name that no code which was read defines (``from common import *``): one object, whoever uses it."""
        kind = self.kind_of_name(name, state)
        scope = self.modules.get(self.frame.path)
        if kind is None or scope is None or (kind == "Module" and self.has_other_model(name)):
            return None
        note = f"`{name}`, defined elsewhere, is used as {NOUNS[kind]}"
        ref = self.create(("undefined", name), at, kind, note, gap=Gap.CONVENTION, born="unseen")
        self.obj(ref).loops = ()
        state.set((scope, name), ref)
        return ref

    def has_other_model(self, name: str) -> bool:
        """Whether only a call tells that a name is a module, and a function calls another name that more tells of:
        ``x, y = parse_batch(batch)`` comes before ``model(x)``."""
        node = self.frame.node
        if not isinstance(node, ir.FunctionDef) or kind_by_use(self.uses_of(name)) is not None:
            return False
        others = (how for other, how in node.uses.items() if other != name and "()" in how)
        return any(kind_by_use(how) == "Module" for how in others)

    def unset(self, owner: Ref, attr: str, at: int, state: State) -> Value | None:
        """An attribute that no code which was read sets (a base class from elsewhere does)."""
        cls = self.obj(owner).cls
        kind = kind_by_use(self.uses_in_class(cls).get(f"self.{attr}", frozenset())) if cls is not None else None
        if kind is None:
            return None
        note = f"`self.{attr}`, set elsewhere, is used as {NOUNS[kind]}"
        ref = self.create(("unset", attr, owner.obj), at, kind, note, gap=Gap.CONVENTION, born="argument")
        self.obj(ref).loops = self.obj(owner).loops  # as old as what holds it, wherever it is first met
        state.set((owner.obj, attr), ref)
        return ref

    def kind_of_name(self, name: str, state: State) -> str | None:
        """The kind that the uses of a name tell, here or where it is handed on."""
        uses = self.uses_of(name)
        kind = kind_by_use(uses)
        if kind is not None and kind != "Stepper":
            return kind
        everywhere = uses.union(*self.handed_on(uses, state, MAX_HANDS))
        told = kind_by_use(everywhere) if len(everywhere) > len(uses) else kind
        if told is None and everywhere & _CALLED and RUNS_BACKWARD.isdisjoint(everywhere):
            is_module = self.is_trained(name, uses) or self.is_trained_by_helper(name, uses, state)
            return "Module" if is_module else None
        return "Optimizer" if told == "Stepper" and is_called_optimizer(name) else told

    def is_trained(self, name: str, uses: frozenset[str]) -> bool:
        """Whether calling a name is the first thing on the way to a loss that gradients are computed of, in this
        function or, for ``self.x`` and what becomes one, in a method of the class."""
        node, this = self.frame.node, self.frame.this
        owner = self.obj(this).cls if isinstance(this, Ref) else self.frame.owner
        if name.startswith("self.") and owner is not None:
            return any(name in trained(each) for each in owner.node.body if isinstance(each, ir.FunctionDef))
        if not isinstance(node, ir.FunctionDef):
            return False
        if name in trained(node):
            return not has_model(node)
        targets = [use[1:] for use in uses if use[:1] == ASSIGNED and use[1:].startswith("self.")]
        return any("()" in self.uses_of(target) and self.is_trained(target, uses) for target in targets)

    def is_trained_by_helper(self, name: str, uses: frozenset[str], state: State) -> bool:
        """Whether a function that was read calls what it is handed to compute the loss that this one, which calls
        nothing else for it, runs backward through: ``loss = td_loss(model, batch); loss.backward()``."""
        node = self.frame.node
        first = trained(node) if isinstance(node, ir.FunctionDef) and not has_model(node) else frozenset()
        for _, callee, position in hands(uses) if len(first) == 1 else ():
            if ".".join(callee) not in first:
                continue
            for func in self.functions_named(callee, state):
                if isinstance(func.node, ir.FunctionDef) and self.parameter(func, position) in given_back(func.node):
                    return True
        return False

    def handed_on(self, uses: frozenset[str], state: State, depth: int) -> Iterator[frozenset[str]]:
        """The uses of a value under the other names it gets."""
        for name, callee, position in hands(uses) if depth else ():
            if not callee:
                yield self.uses_of(name)
                continue
            for func in self.functions_named(callee, state):
                inner = self.uses_of_parameter(func, position)
                yield inner
                yield from self.handed_inside(func, inner, state, depth - 1)

    def handed_inside(self, func: Func, uses: frozenset[str], state: State, depth: int) -> list[frozenset[str]]:
        """Where a function hands one of its parameters on."""
        if not depth or not hands(uses):
            return []
        self.frames.append(self.activation(func))
        try:
            return list(self.handed_on(uses, state, depth))
        finally:
            self.frames.pop()

    def functions_named(self, callee: tuple[str, ...], state: State) -> Iterator[Func]:
        """The functions of the repository that a dotted name means; for a class, its constructor."""
        value = self.lookup(callee[0], state)
        for attr in callee[1:]:
            value = None if value is None else self.member(value, attr, state)
        for case in value.cases if value is not None else ():
            if isinstance(case, Func):
                yield case
            elif isinstance(case, Class):
                init = self.class_attribute(case, "__init__", state)
                yield from (func for func in (init.cases if init is not None else ()) if isinstance(func, Func))

    def member(self, value: Value, attr: str, state: State) -> Value | None:
        """An attribute, without running anything."""
        for case in value.cases:
            if isinstance(case, PyModule):
                return self.member_of(case.scope, attr, state)
            if isinstance(case, Class):
                return self.class_attribute(case, attr, state)
            if isinstance(case, Ref):
                cls = self.obj(case).cls
                held = state.get((case.obj, attr))
                return held if held is not None or cls is None else self.class_attribute(cls, attr, state)
        return None

    def uses_of_parameter(self, func: Func, position: str) -> frozenset[str]:
        """What a function does with the argument at a position or under a keyword."""
        name = self.parameter(func, position)
        return func.node.uses.get(name, frozenset()) if name and isinstance(func.node, ir.FunctionDef) else frozenset()

    def parameter(self, func: Func, position: str) -> str:
        """What a function calls the argument at a position or under a keyword; empty where it has none."""
        if not isinstance(func.node, ir.FunctionDef):
            return ""
        params = [param for param in func.node.params if param.kind in ("", "kw")]
        if position.isdigit():
            is_method = func.owner is not None and not any(
                getattr(wrapper, "name", "") == "builtins.staticmethod" for wrapper in func.wrappers
            )
            index = int(position) + is_method
            names = [params[index].name] if index < len(params) else []
        else:
            names = [param.name for param in params if param.name == position]
        return names[0] if names else ""

    def uses_of(self, name: str) -> frozenset[str]:
        """What the function, or for ``self.x`` the whole class, does with a name."""
        frame = self.frames[-1]
        this = frame.this
        owner = self.objects[this.obj].cls if isinstance(this, Ref) else frame.owner
        if owner is None or not name.startswith("self."):
            return frame.uses.get(name, _NO_USES)
        return self.uses_in_class(owner).get(name, frozenset())

    def uses_in_class(self, cls: Class, depth: int = 0) -> dict[str, frozenset[str]]:
        """What the methods of a class and of its bases do with ``self.x``, by name."""
        known = self.class_uses.get(cls.node)
        if known is None:
            known = self.class_uses[cls.node] = {}
            bases = [case for base in cls.bases for case in base.cases if isinstance(case, Class) and depth < 10]
            parts = [method.uses for method in cls.node.body if isinstance(method, ir.FunctionDef)]
            for uses in (*parts, *(self.uses_in_class(base, depth + 1) for base in bases)):
                for key, how in uses.items():
                    known[key] = known.get(key, frozenset()) | how
        return known

    def class_attribute(self, cls: Class, attr: str, state: State, depth: int = 0) -> Value | None:
        """Looked up along the bases inside the repository."""
        held = state.get((cls.scope, attr))
        if held is not None:
            return held
        for base in cls.bases if depth < 10 else ():
            for case in base.cases:
                if isinstance(case, Class):
                    found = self.class_attribute(case, attr, state, depth + 1)
                    if found is not None:
                        return found
        return None
