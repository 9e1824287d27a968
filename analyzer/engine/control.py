"""Control flow: branches, loops to a fixpoint, with, try, match.

Loops run until the state at their head no longer changes; events of a pass that turns out not to be the last are
dropped, so each event is seen once, with what holds in every iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from analyzer.engine import frozen, modes, weights
from analyzer.engine.assign import Assignments
from analyzer.engine.containers import told_apart, written_out
from analyzer.engine.events import Guard, Loop
from analyzer.engine.machine import Args, OutOfBudget, unseen
from analyzer.engine.narrowing import Change, caught, exclude, narrow, settle
from analyzer.engine.optim_events import Accumulate
from analyzer.engine.state import FALSE, GRAD_OFF, Asked, Place, State, merge, merge_two, same
from analyzer.engine.switches import may_switch_gradients
from analyzer.engine.trace import start
from analyzer.engine.values import (
    Const,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Unknown,
    Value,
    const,
    join,
    truth,
    union,
    without_constants,
)
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, target_values

MAX_PASSES = 4


@dataclass(slots=True)
class _Half:
    """An `if` whose `else` has not run yet: the guards and the container that was lacking around it, its condition, the
    state before the `else` and that after the first branch, what was narrowed, and how many modes had been switched."""

    guards: tuple[Guard, ...]
    yes: Guard
    other: State
    end: State | None
    changes: tuple[list[Change], list[Change]]
    switches: int
    lacking: str


class Control(Assignments):
    """Run compound statements."""

    def if_(self, node: ir.If, state: State) -> State | None:
        """A chain of `elif` is an `if` in the `else` of an `if` and so on: run without going as deep."""
        above: list[_Half | tuple[Guard, ...]] = []
        while True:
            half = self.first_half(node, state)
            if isinstance(half, _Half):
                rest, state = node.orelse, half.other
                above.append(half)
            else:
                rest = half
                above.append(self.guards)
            inner = rest[0] if len(rest) == 1 else None
            if not isinstance(inner, ir.If) or not self.is_branch(inner):
                break
            self.spend()
            node = inner
        met = self.run(rest, state)
        for one in reversed(above):
            if isinstance(one, _Half):
                met = self.second_half(one, met)
            else:
                self.guards = one
        return met

    def is_called_again(self) -> bool:
        """Whether a framework calls this in its loop, read once: what it finds is not what the next call does."""
        return bool(self.loops) and self.loops[-1].kind == "framework"

    def is_branch(self, node: ir.If) -> bool:
        """Whether an `if` is nothing but one."""
        return True

    def first_half(self, node: ir.If, state: State) -> _Half | ir.Block:
        """An `if` up to its `else`; where it is known which branch is taken, that branch."""
        test = self.evaluate(node.test, state)
        known = truth(test)
        self.note_sync(test, "if", node.test.at)
        if known is not None and not (self.is_called_again() and sets_flag(node)):
            return node.body if known else node.orelse
        yes = Guard(
            self.site(node.at), True, is_periodic(test) or resets_counter(node), modes.is_option(self, node.test)
        )
        guards, self.guards = self.guards, (*self.guards, yes)
        other, switches = state.fork(), len(self.switches)
        changes = narrow(self, node.test, True, state, node.body), narrow(self, node.test, False, other, node.orelse)
        outer, self.lacking = self.lacking, lacking(node.test, "not in")
        end = self.run(node.body, state)
        self.guards, self.lacking = (*guards, yes.other), lacking(node.test, "in")
        return _Half(guards, yes, other, end, changes, switches, outer)

    def second_half(self, half: _Half, otherwise: State | None) -> State | None:
        """Where both branches meet; `otherwise` is the end of the `else`."""
        end, yes, guards = half.end, half.yes, half.guards
        self.lacking = half.lacking
        # where one branch leaves, the other's condition holds for the rest of the block (`run` ends it there)
        self.guards = guards if (end is None) is (otherwise is None) else (*guards, yes.other if end is None else yes)
        met = merge([end, otherwise])
        settle(end, otherwise, half.changes, met)
        if met is not None and len(self.switches) > half.switches:
            modes.choose(self, (end, otherwise), met, half.switches)
        return met

    def for_(self, node: ir.For, state: State) -> State | None:
        iterable = self.evaluate(node.iter, state)
        loop = self.loop_over(iterable, node.at, state)
        stages = written_out(node.iter)
        if stages:
            return self.staged(loop, stages, node, state)

        def begin(head: State) -> None:
            element = union(self.element(case, node.iter.at, head) for case in iterable.cases)
            if loop.kind == "data":
                element = batch(element)
            self.assign(node.target, self.by_use(node.target, element, node.iter.at, head), head, node.iter.at)

        phases = told_apart(node)
        if phases:
            return self.staged(loop, phases, node, state, begin)
        return self.loop(loop, begin, node.body, node.orelse, state)

    def staged(
        self,
        loop: Loop,
        stages: tuple[ir.Constant, ...],
        node: ir.For,
        state: State,
        begin: Callable[[State], None] | None = None,
    ) -> State | None:
        """``for phase in ["train", "val"]``: what happens in each is told apart, in order. `begin` gives the other
        names of the loop what they hold, where the phase is the first of several."""
        name = node.target.items[0] if begin is not None and isinstance(node.target, ir.Display) else node.target
        outer, calls = self.loops, self.calls
        self.loops = (*outer, loop)
        exits: list[State] = []
        now: State | None = state
        for number, stage in enumerate(stages):
            if now is None:
                break
            self.calls = (*calls, self.site(stage.at)._replace(run=-1 - number))
            if begin is not None:
                begin(now)
            self.assign(name, self.evaluate(stage, now), now, node.iter.at)
            self.frame.breaks.append([])
            self.frame.continues.append([])
            end = self.run(node.body, now)
            exits += self.frame.breaks.pop()
            now = merge([end, *self.frame.continues.pop()])
        self.loops, self.calls = outer, calls
        return merge([self.run(node.orelse, now) if now is not None else None, *exits])

    def while_(self, node: ir.While, state: State) -> State | None:
        site = self.site(node.at)
        loop = Loop(site, "while", start(site, "the loop"), run=self.run_number, depth=len(self.calls))
        return self.loop(loop, lambda head: void(self.evaluate(node.test, head)), node.body, node.orelse, state)

    def loop(
        self, loop: Loop, begin: Callable[[State], None], body: ir.Block, orelse: ir.Block, state: State
    ) -> State | None:
        outer, self.loops = self.loops, (*self.loops, loop)
        mark = len(self.events)
        this = self.frame.this  # one call may be that of a method of one object or another
        key = (loop.site, self.calls, this.obj if isinstance(this, Ref) else None)
        earlier = self.heads.get(key)
        head = state if earlier is None else merge_two(state, earlier, widening)
        exits: list[State] = []
        switches = len(self.switches)
        again: State | None = None
        for number in range(MAX_PASSES):
            around, asked = state.base.asked, Asked(head.held, state.base.by_object)
            state.base.asked, facts = asked, self.facts()
            entered = head.fork()
            entered.made = set()
            try:
                again, exits = self.once(body, begin, entered, mark)
            finally:  # a pass that is cut off has asked too, and what comes after it asks for whatever is around it
                state.base.asked = around
                around.absorb(asked, state.made)
            if again is None:
                break
            following = merge_two(head, again, counting if number == 0 and earlier is None else widening)
            following.made = state.made
            if same(following, head):
                break
            before, head = head, following
            if facts == self.facts() and asked.is_answered_alike(
                before, following, partial(weights.are_gone, self, state=following)
            ):
                break
        if outer:
            self.heads[key] = head
        self.loops = outer
        left = head.fork()
        if again is not None and len(self.switches) > switches:
            modes.settle(self, again, left, switches)
        if again is not None and loop.runs_over == "parameters" and not loop.over:
            frozen.settle(again, left)
        after = self.run(orelse, left)
        return merge([after, *exits])

    def once(
        self, body: ir.Block, begin: Callable[[State], None], state: State, mark: int
    ) -> tuple[State | None, list[State]]:
        """One pass: where it goes on from, and where it leaves the loop. The events from `mark` on are those of this
        pass, but of the pass before if this one runs out of steps: a whole one says more than a part of another."""
        whole = self.events[mark:]
        del self.events[mark:]
        self.frame.breaks.append([])
        self.frame.continues.append([])
        try:
            begin(state)
            end = self.run(body, state)
        except OutOfBudget:
            self.events[mark:] = whole or self.events[mark:]
            raise
        exits, continues = self.frame.breaks.pop(), self.frame.continues.pop()
        return merge([end, *continues]), exits

    def facts(self) -> tuple[int, ...]:
        """How much is known beside the state that a pass may ask for."""
        return (
            "eval" in self.births, len(self.reads_mode), len(self.followers), len(self.frozen_under),
            len(self.given_names), len(self.modules), self.has_optimizer, self.memory.cuts,
        )  # fmt: skip

    def with_(self, node: ir.With, state: State) -> State | None:
        before = state.get(GRAD_OFF)
        held_modes: dict[Place, Value] = {}
        managers: list[Ref] = []
        accumulating: list[Guard] = []
        for context, target in node.items:
            earlier = state.fork()
            value = self.evaluate(context, state)
            entered = self.enter(value, context.at, state)
            if may_switch_gradients(value, context):
                state.set(GRAD_OFF, Scalar("bool"))
            accumulating += self.accumulation(value, context.at)
            if isinstance(value, Stream):  # a generator context of the repository puts modes back when it exits
                switched = [(obj, "is eval") for obj in state.objects_with("is eval")]
                held_modes.update({place: earlier.get(place) or FALSE for place in switched})
            managers += [case for case in value.cases if isinstance(case, Ref) and self.obj(case).cls is not None]
            if target is not None:
                self.assign(target, entered, state, context.at)
        frame = self.frame
        mark, jumps = len(frame.returns), [each[-1] for each in (frame.breaks, frame.continues) if each]
        marks = [len(each) for each in jumps]
        guards, self.guards = self.guards, (*self.guards, *accumulating)
        end = self.run(node.body, state)
        self.guards = guards
        if end is not None:
            for place, held in held_modes.items():
                end.set(place, held)
            for manager in managers:
                self.leave(manager, node.at, end)
        left = [out for each, known in zip(jumps, marks, strict=True) for out in each[known:]]
        for out in (*([end] if end else []), *(s for _, s in frame.returns[mark:]), *left):
            out.set(GRAD_OFF, before or FALSE)
        return end

    def accumulation(self, value: Value, at: int) -> list[Guard]:
        """``with accelerator.accumulate(…)``: the guard of what happens in it."""
        contexts = [self.obj(case) for case in value.cases if isinstance(case, Ref)]
        for obj in contexts:
            if obj.name == "Accelerator.accumulate":
                owner = dict(obj.arguments).get("accelerator")
                made = dict(self.obj(owner).arguments) if isinstance(owner, Ref) else {}
                known = isinstance(owner, Ref) and self.obj(owner).name
                default = const(1) if known and "gradient_accumulation_plugin" not in made else None
                self.emit(Accumulate, at, None, steps=made.get("gradient_accumulation_steps") or default)
                return [Guard(self.site(at), True)]
        return []

    def enter(self, value: Value, at: int, state: State) -> Value:
        """Enter a context: what it does to the grad mode, and what it binds."""
        results: list[Value] = []
        for case in value.cases:
            if isinstance(case, Ref) and self.obj(case).kind == "Context":
                row = self.knowledge.row(self.obj(case).name)
                self.set_grad(row.effect if row else "", state.get((case.obj, "mode")), state)
            elif isinstance(case, Ref) and (cls := self.obj(case).cls) is not None:
                method = self.class_attribute(cls, "__enter__", state)
                if method is not None:
                    results.append(self.call(self.bound(method, case, at, state), Args(), at, state))
                    continue
            elif isinstance(case, Stream):
                results.append(case.element)
                continue
            results.append(case)
        return union(results)

    def leave(self, manager: Ref, at: int, state: State) -> None:
        """Leave a context manager of the repository."""
        cls = self.obj(manager).cls
        method = self.class_attribute(cls, "__exit__", state) if cls is not None else None
        if method is not None:
            nothing = const(None)
            self.call(self.bound(method, manager, at, state), Args((nothing, nothing, nothing)), at, state)

    def try_(self, node: ir.Try, state: State) -> State | None:
        before, mark = state.fork(), len(self.frame.returns)
        end = self.run(node.body, state)
        raised = merge_two(before, end) if end is not None else before
        ends = [self.run(node.orelse, end)]
        changes: list[list[Change]] = []
        for handler in node.handlers:
            path = raised.fork()
            changes.append(exclude(self, caught(node.body, handler), path, handler.body))
            if handler.name:
                path.set((self.frame.scope, handler.name), unseen("an exception", self.site(handler.at)))
            ends.append(self.run(handler.body, path))
        met = merge(ends)
        for number, changed in enumerate(changes, start=1):
            settle(ends[0], ends[number], ([], changed), met)
        if not node.final:
            return met
        self.leave_by(node.final, mark)
        if met is not None:
            return self.run(node.final, met)
        return None if len(self.frame.returns) > mark else self.run(node.final, raised)

    def leave_by(self, final: ir.Block, since: int) -> None:
        """A ``return`` inside a ``try`` runs what stands under ``finally``."""
        left = self.frame.returns[since:]
        del self.frame.returns[since:]
        for value, path in left:
            end = self.run(final, path)
            self.frame.returns += [(value, end)] if end is not None else []

    def match(self, node: ir.Match, state: State) -> State | None:
        self.evaluate(node.subject, state)
        ends: list[State | None] = [state.fork()]
        for case in node.cases:
            path = state.fork()
            for name in case.names:
                path.set((self.frame.scope, name), unseen("a pattern", self.site(node.at)))
            self.optional(case.guard, path)
            ends.append(self.run(case.body, path))
        return merge(ends)


def is_periodic(test: Value) -> bool:
    """Whether a condition holds every n-th time."""
    return any(isinstance(case, Scalar) and case.kind == "cycle" for case in test.cases)


@remembered(maxsize=4096)
def lacking(test: ir.Expr, op: str) -> str:
    """The container that has no such key where a condition holds: ``if name not in kept``."""
    is_asked = isinstance(test, ir.Operation) and test.op == op and test.right is not None
    return (dotted(test.right) or "") if is_asked and isinstance(test, ir.Operation) and test.right is not None else ""


def sets_flag(node: ir.If) -> bool:
    """``if not self.logged: self.logged = True``, ``if first and rank == 0: first = False``: done once."""
    assigned = (pair for part in node.body if isinstance(part, ir.Assign) for pair in target_values(part))
    given = {dotted(to): value for to, value in assigned}
    return bool(given) and any(_makes_false(test, given) for test in _joined(node.test))


def _joined(test: ir.Expr) -> list[ir.Expr]:
    """What has to hold together."""
    if isinstance(test, ir.Operation) and test.op == "and" and test.right is not None:
        return [*_joined(test.left), *_joined(test.right)]
    return [test]


def _makes_false(test: ir.Expr, given: dict[str | None, ir.Expr]) -> bool:
    is_not = isinstance(test, ir.Operation) and test.op == "not"
    asked = dotted(test.left if isinstance(test, ir.Operation) and is_not else test)
    value = given.get(asked) if asked is not None else None
    return isinstance(value, ir.Constant) and bool(value.value) is is_not


def resets_counter(node: ir.If) -> bool:
    """``if count >= n: …; count = 0``, ``if left == 0: …; left = n``, ``if step - last >= n: …; last = step``."""
    if not isinstance(node.test, ir.Operation) or node.test.right is None:
        return False
    distance = node.test.left
    if node.test.op in {">=", ">", "=="} and isinstance(distance, ir.Operation) and distance.op == "-":
        now, last = dotted(distance.left), dotted(distance.right) if distance.right is not None else None
        if now is not None and last is not None and any(_sets(each, last, now) for each in node.body):
            return True
    counters = {dotted(node.test.left), dotted(node.test.right)} - {None}
    is_down = node.test.op in {"==", "<="} and isinstance(node.test.right, ir.Constant) and node.test.right.value == 0
    return any(
        isinstance(each, ir.Assign)
        and (is_down or (isinstance(each.value, ir.Constant) and each.value.value == 0))
        and any(dotted(target) in counters for target in each.targets)
        for each in node.body
    )


def _sets(node: ir.Stmt, name: str, to: str) -> bool:
    is_it = isinstance(node, ir.Assign) and node.value is not None and dotted(node.value) == to
    return is_it and isinstance(node, ir.Assign) and any(dotted(target) == name for target in node.targets)


def void(value: object) -> None:
    """Evaluate for the effect."""


def batch(value: Value) -> Value:
    """An element of a loop over data: an unknown one may be a batch."""
    return union(_batch(case) for case in value.cases)


def _batch(case: Value) -> Value:
    if isinstance(case, Unknown) and not case.roots:
        return Tensor(via=case.via, is_opaque=True, is_batch=True, trace=case.trace)
    if isinstance(case, Tuple):
        return Tuple(tuple(batch(item) for item in case.items), trace=case.trace)
    return case


def counting(one: Value, other: Value) -> Value:
    """The join after the first pass: a number that became another one counts, and goes on to."""
    return widening(one, other) if _is_number(one) and _is_number(other) else join(one, other)


def _is_number(value: Value) -> bool:
    return isinstance(value, Const) and value.kind in {"int", "float"}


def widening(one: Value, other: Value) -> Value:
    """A join after the first pass: constants that a loop changes become scalars."""
    if one == other:
        return one
    joined = join(one, other)
    return one if joined == one else without_constants(joined)
