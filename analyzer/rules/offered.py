"""Whether a branch is one that the program only offers: an option that is off unless the command line says otherwise.

Options are read off the ``add_argument`` calls of the files that were read, and what their tests are made of is
followed by what it is assigned, not by what it is called.
"""

from __future__ import annotations

from collections.abc import Iterator

from analyzer.engine.events import Event, Guard
from analyzer.engine.fold import NotConstant, binary, unary
from analyzer.engine.program import Program
from analyzer.engine.trace import Site, Trace, start
from analyzer.engine.words import words
from analyzer.syntax import ir
from analyzer.syntax.scope import branches_around, dotted, last_name, of_type, walk

_DEPTH = 12
_MAX_STEPS = 1000
"""Of one question: what is assigned in a circle is looked up again and again."""
_FLAGS = {"store_true": False, "store_false": True}


class _Unknown(Exception):
    """What decides is not in the text."""


class Offers:
    """The options of the files of one program, and what its attributes and variables are given."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._steps = 0
        self.defaults: dict[str, list[ir.Call]] = {}
        self.given: dict[str, list[tuple[str, int, ir.Expr | None]]] = {}
        """What each name is assigned: in which file, by which statement; None where that is not in the text."""
        for path in program.modules:
            unit = program.unit(path)
            for node in walk(unit.body, True) if unit is not None else ():
                self._note(path, node)

    def _note(self, path: str, node: object) -> None:
        if isinstance(node, ir.Call) and declares_option(node):
            if (dest := dest_of(node)) is not None:
                self.defaults.setdefault(dest, []).append(node)
        elif isinstance(node, ir.Augment):
            self._set(path, node.at, node.target, None)
        elif isinstance(node, ir.Assign):
            for target in node.targets:
                self._set(path, node.at, target, node.value)

    def _set(self, path: str, at: int, target: ir.Expr, value: ir.Expr | None) -> None:
        if isinstance(target, ir.Attribute):
            self.given.setdefault(target.attr, []).append((path, at, value))
        elif isinstance(target, ir.Name):
            self.given.setdefault(f"{path}:{target.id}", []).append((path, at, value))
        elif isinstance(target, ir.Display):
            for item in target.items:
                self._set(path, at, item, None)

    def is_off(self, guard: Guard) -> bool:
        """Whether a branch is not taken where the command line says nothing."""
        node = words(self.program).node(guard.site)
        test = node.test if isinstance(node, (ir.If, ir.While, ir.Conditional)) else node
        if not isinstance(test, ir.Expr):
            return False
        self._steps = 0
        try:
            return bool(self._value(test, guard.site.path, _DEPTH)) is not guard.taken
        except _Unknown:
            return False

    def by_default(self, node: ir.Expr, path: str) -> object:
        """What an expression is where the command line says nothing; None also where that is not in the text."""
        self._steps = 0
        try:
            return self._value(node, path, _DEPTH)
        except _Unknown:
            return None

    def _value(self, node: ir.Expr, path: str, depth: int) -> object:
        if isinstance(node, ir.Constant):
            return node.value
        self._steps += 1
        if not depth or self._steps > _MAX_STEPS:
            raise _Unknown
        if isinstance(node, ir.Operation):
            return self._operation(node, path, depth - 1)
        if isinstance(node, ir.Name):
            return self._agreed(self._assigned(f"{path}:{node.id}", path, depth - 1))
        if isinstance(node, ir.Attribute):
            declared = (default_of(call) for call in self.defaults.get(node.attr, ()))
            values = [self._value(each, path, depth - 1) if each is not None else None for each in declared]
            return self._agreed([*values, *self._assigned(node.attr, path, depth - 1)])
        raise _Unknown

    def _assigned(self, name: str, path: str, depth: int) -> list[object]:
        found = self.given.get(name, [])
        made = [value for where, at, value in found if not self._is_passed_over(where, at, depth)]
        if any(each is None for each in made):
            raise _Unknown
        return [self._value(each, path, depth) for each in made if each is not None]

    def _is_passed_over(self, path: str, at: int, depth: int) -> bool:
        """Whether an assignment stands in a branch that is not taken where the command line says nothing."""
        unit = self.program.unit(path)
        for branch, taken in branches_around(unit, at) if unit is not None else ():
            try:
                if bool(self._value(branch.test, path, depth)) is not taken:
                    return True
            except _Unknown:
                continue
        return False

    def _agreed(self, values: list[object]) -> object:
        if not values or any(value != values[0] for value in values):
            raise _Unknown
        return values[0]

    def _operation(self, node: ir.Operation, path: str, depth: int) -> object:
        if node.op in {"and", "or"} and node.right is not None:
            return self._either(node.op == "or", (node.left, node.right), path, depth)
        left = self._value(node.left, path, depth)
        try:
            if node.right is None:
                return unary(node.op, left)
            return binary(node.op, left, self._value(node.right, path, depth))
        except NotConstant:
            raise _Unknown from None

    def _either(self, decides: bool, sides: tuple[ir.Expr, ir.Expr], path: str, depth: int) -> object:
        """One side that is known may be enough."""
        is_known = True
        for side in sides:
            try:
                if bool(self._value(side, path, depth)) is decides:
                    return decides
            except _Unknown:
                is_known = False
        if not is_known:
            raise _Unknown
        return not decides


def is_offered(program: Program, event: Event) -> bool:
    """Whether an event only happens where an option is given that is off by default."""
    offers = _offers(program)
    return any(offers.is_off(guard) for guard in event.guards)


def is_made_on_offer(program: Program, made: Site) -> bool:
    """Whether an expression stands in a branch that is not taken where the command line says nothing."""
    unit, offers = program.unit(made.path), _offers(program)
    ways = [(branch.at, taken) for branch, taken in branches_around(unit, made.at)] if unit is not None else []
    ways += [(node.at, made.at in _numbers(node.body)) for node in _choices(program, made)]
    return any(offers.is_off(Guard(Site(made.path, at), taken)) for at, taken in ways)


def _choices(program: Program, site: Site) -> Iterator[ir.Conditional]:
    """``one if test else other`` that a place is one or the other of."""
    for node in of_type(program.unit(site.path), ir.Conditional):
        if any(site.at in _numbers(branch) for branch in (node.body, node.orelse)):
            yield node


def is_one_of_several(program: Program, event: Event) -> bool:
    """Whether a name chooses what happens among several: ``if args.data == "ucf101": … elif args.data == "sky": …``.
    Which of them a run takes, the text does not say."""
    asked = [(guard, words(program).node(guard.site)) for guard in event.guards]
    before = {_chosen_by(node) for guard, node in asked if not guard.taken}
    for guard, node in asked:
        name = _chosen_by(node)
        then = node.orelse[0] if isinstance(node, ir.If) and len(node.orelse) == 1 else None
        if guard.taken and name and (name in before or name == _chosen_by(then)):
            return True
    return False


def _chosen_by(node: object) -> str:
    """``args.data`` of ``if args.data == "ucf101":``."""
    test = node.test if isinstance(node, ir.If) else None
    if not isinstance(test, ir.Operation) or test.op != "==" or not isinstance(test.right, ir.Constant):
        return ""
    return (dotted(test.left) or "") if isinstance(test.right.value, str) else ""


def by_default(program: Program, call: Site, keyword: str) -> object:
    """What a call is given under a keyword where the command line says nothing."""
    node = words(program).node(call)
    given = [arg.value for arg in node.args if arg.keyword == keyword] if isinstance(node, ir.Call) else []
    return _offers(program).by_default(given[0], call.path) if given else None


def is_left_off(program: Program, call: Site, keyword: str) -> bool:
    """Whether a call is given an option of the project under a keyword (``enabled=args.amp``) that its defaults and
    configurations turn off, and that no configuration, script or page of the tree turns on."""
    node = words(program).node(call)
    given = [arg.value for arg in node.args if arg.keyword == keyword] if isinstance(node, ir.Call) else []
    name = last_name(given[0]) if given else ""
    return bool(name) and program.project.is_left_off(name)


def why_left_off(program: Program, site: Site) -> Trace | None:
    """The condition around a place that a setting keeps everybody out of who uses the tree as its authors do, where a
    script or a page says how that is."""
    unit = program.unit(site.path) if program.project.shows_runs() else None
    for branch, taken in branches_around(unit, site.at) if unit is not None else ():
        name = _never(program, branch.test, taken)
        if name:
            way = "on" if taken else "off"
            return start(
                Site(site.path, branch.at), f"only where `{name}` is {way}, which nothing in this tree makes it"
            )
    return None


def is_switched_away(program: Program, event: Event) -> bool:
    """Whether an event, or a call that leads to it, stands in a branch that a setting keeps everybody out of who uses
    the tree as its authors do: ``mse(x) if options["reconstruction"] else bce(x)``, and the configurations say true."""
    ways = [(guard.site, guard.taken) for guard in event.guards]
    tests = [(node.test, taken) for site, taken in ways if isinstance(node := words(program).node(site), ir.If)]
    for site in (event.site, *event.calls):
        tests += [(node.test, site.at in _numbers(node.body)) for node in _choices(program, site)]
    return any(_is_never(program, test, wanted) for test, wanted in tests)


def _numbers(node: ir.Expr) -> frozenset[int]:
    return frozenset(getattr(part, "at", -1) for part in walk((node,), False))


def _is_never(program: Program, test: ir.Expr, wanted: bool) -> bool:
    return bool(_never(program, test, wanted))


def _never(program: Program, test: ir.Expr, wanted: bool) -> str:
    """The setting of the tree (``args.amp``, ``config["amp"]``) that a condition asks for, where the tree leaves it
    otherwise; else nothing."""
    while isinstance(test, ir.Operation) and test.op == "not":
        test, wanted = test.left, not wanted
    if isinstance(test, ir.Operation) and test.op == ("and" if wanted else "or") and test.right is not None:
        return _never(program, test.left, wanted) or _never(program, test.right, wanted)
    index = test.index if isinstance(test, ir.Subscript) else None
    name = index.value if isinstance(index, ir.Constant) else test.attr if isinstance(test, ir.Attribute) else None
    if not isinstance(name, str) or name == "training":
        return ""
    return name if (program.project.is_left_off if wanted else program.project.is_left_on)(name) else ""


def _offers(program: Program) -> Offers:
    found = program.answers.get(Offers)
    if not isinstance(found, Offers):
        found = program.answers[Offers] = Offers(program)
    return found


def declares_option(call: ir.Call) -> bool:
    """``parser.add_argument("--epochs", …)``."""
    return isinstance(call.callee, ir.Attribute) and call.callee.attr == "add_argument"


def dest_of(call: ir.Call) -> str | None:
    """The attribute that an ``add_argument`` call fills."""
    names = [arg.value.value for arg in call.args if isinstance(arg.value, ir.Constant) and arg.keyword is None]
    texts = [name for name in names if isinstance(name, str) and name]
    given = next((arg.value for arg in call.args if arg.keyword == "dest"), None)
    if isinstance(given, ir.Constant) and isinstance(given.value, str):
        return given.value
    long = next((text for text in texts if text.startswith("--")), texts[0] if texts else None)
    return long.lstrip("-").replace("-", "_") if long is not None and long.startswith("-") else None


def default_of(call: ir.Call) -> ir.Expr | None:
    """What an option is where nothing is said; None stands for None."""
    named = dict(_keywords(call))
    if "default" in named:
        return named["default"]
    action = named.get("action")
    if isinstance(action, ir.Constant) and action.value in _FLAGS:
        return ir.Constant(call.at, _FLAGS[str(action.value)])
    if "required" in named or any(arg.star for arg in call.args):
        raise _Unknown
    return None


def _keywords(call: ir.Call) -> Iterator[tuple[str, ir.Expr]]:
    for arg in call.args:
        if arg.keyword:
            yield arg.keyword, arg.value
