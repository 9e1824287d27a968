"""Arguments to parameters; what a parameter is that no seen caller gives."""

from __future__ import annotations

from analyzer.engine.annotations import documented, stated
from analyzer.engine.calls import declared
from analyzer.engine.commands import from_words
from analyzer.engine.control import Control
from analyzer.engine.machine import Args, Frame, unseen
from analyzer.engine.state import State
from analyzer.engine.trace import Gap, start
from analyzer.engine.trained import feeds, functional
from analyzer.engine.typing import NOUNS, evaluates, has_blank, has_model, is_blank, is_only_listed, kind_by_use, models
from analyzer.engine.values import Class, Const, Func, Scalar, Stream, Tensor, Tuple, Unknown, Value, option, union
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted


class Binding(Control):
    """Give parameters their values."""

    def bind(self, func: Func, args: Args, frame: Frame, state: State) -> None:
        """Arguments to parameters; what is missing takes its default, or is unknown."""
        given = (func.bound, *args.positional) if func.bound is not None else args.positional
        position = 0
        self.frames.append(frame)
        for param in func.node.params:
            value = args.keywords.get(param.name)
            if param.kind == "*":
                value = Tuple(given[position:])
            elif param.kind == "**":
                value = self.collected(func.node, args, state)
            elif param.kind == "" and position < len(given):
                value = given[position]
                position += 1
            if value is None and self.wanted:
                value = from_words(self, func, param, state)
            if value is None and param.default is not None:
                value = state.get((func.scope, f"default {func.node.at} {param.name}"))
                if isinstance(value, Const) and not self.wanted and (func.path, func.node.at) in self.commands:
                    value = option(value)  # ``fire.Fire(train)``: for every command line
            value = value or unseen(f"argument `{param.name}`", self.site(func.node.at), is_given=True)
            if has_blank(value):
                value = self.typed(param, func.node, value, state)
            state.set((frame.scope, param.name), value)
        self.frames.pop()

    def collected(self, node: ir.FunctionDef | ir.Lambda, args: Args, state: State) -> Value:
        """``**kwargs``: a dict of the keyword arguments that no parameter takes."""
        taken = {param.name for param in node.params}
        is_open = args.has_more or any(param.kind == "**" and param.name in args.keywords for param in node.params)
        born = "argument" if is_open else ""  # a caller that was not seen may pass more
        ref = self.create(("**", node.at), node.at, "dict", "keyword arguments", born=born)
        self.empty(ref, state)
        for name, value in args.keywords.items():
            if name not in taken:
                state.set((ref.obj, f"[{name!r}]"), value)
        return ref

    def typed(self, param: ir.Param, node: ir.FunctionDef | ir.Lambda, value: Value, state: State) -> Value:
        """An argument of which nothing is known: what its parameter is annotated as, or else used as."""
        by_annotation = self.by_annotation(param, state)
        if by_annotation is not None:
            return union([by_annotation, *(case for case in value.cases if not is_blank(case))])
        value = self.by_use(ir.Name(param.at, param.name), value, param.at, state)
        kind = documented(node, param.name) if isinstance(node, ir.FunctionDef) else None
        if kind is not None and all(is_blank(case) for case in value.cases):
            note = f"the docstring says that `{param.name}` is {NOUNS.get(kind, 'a loader')}"
            return self.create(("documented", param.name), param.at, kind, note, gap=Gap.CONVENTION, born="argument")
        return value

    def parameter_value(self, param: ir.Param, node: ir.FunctionDef, state: State) -> Value:
        """The value to start a parameter with that nobody passes; `bind` types it where its uses tell more."""
        by_annotation = self.by_annotation(param, state)
        if by_annotation is not None:
            return by_annotation
        site, uses = self.site(param.at), node.uses.get(param.name, frozenset())
        is_called = "()" in uses and "for" not in uses and kind_by_use(uses) is None
        is_called = is_called and param.name not in functional(node)
        if is_called and evaluates(node) and (not has_model(node) or feeds(node, param.name, models(node))):
            note = f"`{param.name}` is used as a module"
            return self.create(("parameter", param.name), param.at, "Module", note, gap=Gap.CONVENTION, born="called")
        if "for" in uses and documented(node, param.name) is None and not is_only_listed(node, param.name):
            note = f"`{param.name}` is iterated over"
            return Stream(Tensor(is_opaque=True, is_batch=True), trace=start(site, note, Gap.CONVENTION))
        kind = _kind_of_empty(param.default)
        if kind is not None:
            note = f"`{param.name}` is a {kind} unless a caller gives another"
            return self.create(("parameter", param.name), param.at, kind, note, gap=Gap.CONVENTION, born="argument")
        note = f"parameter `{param.name}`"
        return Unknown("a parameter", Gap.UNSEEN, is_given=True, trace=start(site, note, Gap.UNSEEN))

    def by_annotation(self, param: ir.Param, state: State) -> Value | None:
        """What a parameter is annotated as, if that tells anything."""
        for kind in stated(self, param.annotation, state):
            if kind == "plain":
                return Scalar("number")
            if kind == "tensor":
                return Unknown("a tensor parameter", Gap.UNSEEN)
            key, note = ("parameter", param.name), f"`{param.name}` is annotated as a {named(kind)}"
            if isinstance(kind, Class):
                return self.instance_of(kind, key, param.at, note, state)
            return self.create(key, param.at, kind, note, born="argument")
        return None

    def instance_of(self, cls: Class, key: object, at: int, note: str, state: State) -> Value | None:
        """An instance of a class of the repository that unseen code made: its constructor ran, its fields are what
        the class declares."""
        kind = self.kind_of(cls)
        if len(self.frames) > MAX_NESTED:
            return None
        ref = self.create(key, at, kind, note, cls=cls, born="argument")
        self.empty(ref, state)
        self.construct(cls, ref, Args((), {}, has_more=True), at, state)
        for field, annotation in declared(cls):
            for held in stated(self, annotation, state):
                if isinstance(held, str) and held[:1].isupper() and state.get((ref.obj, field)) is None:
                    text = f"`{field}` is annotated as a {held}"
                    state.set((ref.obj, field), self.create((key, field), annotation.at, held, text))
        return ref


def _kind_of_empty(default: ir.Expr | None) -> str | None:
    """What an empty list or dict as a default says of what a caller may give."""
    if isinstance(default, ir.Display) and default.kind == "list" and not default.items:
        return "list"
    if isinstance(default, ir.Call) and not default.args and dotted(default.callee) in {"list", "dict"}:
        return dotted(default.callee)
    return None


MAX_NESTED = 6
"""No instances are made up deeper in calls than this."""


def named(kind: str | Class) -> str:
    """A kind in words."""
    return kind.node.name if isinstance(kind, Class) else kind
