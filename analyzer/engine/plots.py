"""Values that are only looked at: what is drawn for a picture and for nothing else."""

from __future__ import annotations

from analyzer.engine.program import Program
from analyzer.engine.randomness import imported
from analyzer.engine.trace import Site
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, target_names, walk

_PLOTS = ("matplotlib", "seaborn", "plotly", "pylab")
_PICTURES = frozenset(
    {"save_image", "make_grid", "add_image", "add_images", "add_figure", "imsave", "imshow", "imwrite", "savefig"}
)
"""Calls that show or write a picture, whoever has them."""


def is_only_plotted(program: Program, site: Site) -> bool:
    """Whether a call stands in a function that plots and gives nothing, or at the top of a file, where what it gives
    is kept under a name that only plots read until the name means something else."""
    unit = program.unit(site.path)
    function = program.function_around(site)
    if function is not None:
        return unit is not None and _only_plots(unit, function)
    for index, node in enumerate(unit.body if unit is not None else ()):
        if isinstance(node, ir.Assign) and any(getattr(part, "at", None) == site.at for part in walk((node,), True)):
            target = node.targets[0] if len(node.targets) == 1 else None
            return unit is not None and isinstance(target, ir.Name) and _rest_plots(unit, index + 1, target.id)
    return False


def _plotting(unit: ir.Unit) -> set[str]:
    return {bound for bound, full in imported(unit).items() if full.partition(".")[0] in _PLOTS}


def _only_plots(unit: ir.Unit, function: ir.FunctionDef) -> bool:
    plots, seen = _plotting(unit), False
    for node in walk(function.body, True):
        if isinstance(node, ir.Return) and node.value is not None:
            return False
        text = dotted(node.callee) if isinstance(node, ir.Call) else None
        seen = seen or (text is not None and (text.partition(".")[0] in plots or text.rpartition(".")[2] in _PICTURES))
        if text is not None and text.endswith((".backward", ".step")):
            return False
    return seen


def _rest_plots(unit: ir.Unit, begin: int, name: str) -> bool:
    plots = _plotting(unit)
    seen = False
    for node in unit.body[begin:]:
        targets = node.targets if isinstance(node, ir.Assign) else ()
        if any(isinstance(target, ir.Name) and target.id == name for target in targets):
            break
        if isinstance(node, (ir.FunctionDef, ir.ClassDef)) or not _reads(node, name):
            continue
        if _is_plot(node, plots):
            seen = True
        elif not _changes_itself(node, name):
            return False
    return seen


def _reads(node: ir.Stmt, name: str) -> bool:
    return any(isinstance(part, ir.Name) and part.id == name for part in walk((node,), True))


def _is_plot(node: ir.Stmt, plots: set[str]) -> bool:
    call = node.value if isinstance(node, ir.Evaluate) else None
    text = dotted(call.callee) if isinstance(call, ir.Call) else None
    return text is not None and text.partition(".")[0] in plots


def _changes_itself(node: ir.Stmt, name: str) -> bool:
    """``z[:, 0] = z[:, 0] * 6``, perhaps under a condition."""
    if isinstance(node, ir.If):
        return all(_changes_itself(each, name) for each in (*node.body, *node.orelse)) and not any(
            isinstance(part, ir.Name) and part.id == name for part in walk((ir.Evaluate(node.at, node.test),), True)
        )
    if not isinstance(node, ir.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    return isinstance(target, ir.Subscript) and isinstance(target.value, ir.Name) and target.value.id == name


def is_only_shown(program: Program, site: Site) -> bool:
    """Whether what a call gives picks what pictures show, wherever it stands (``i = randint(0, 7)``,
    ``plt.imshow(x[i])`` in a loop over a few batches): each statement that reads it, or what was made of it, shows
    something, or gives another name to it."""
    unit, function = program.unit(site.path), program.function_around(site)
    if unit is None:
        return False
    scope = _scope(unit, function.body if function is not None else unit.body)
    home = next((each for each in scope.statements if any(_is_at(part, site) for part in scope.heads[each.at])), None)
    if isinstance(home, ir.Evaluate):
        return scope.paints(home)
    names = set(_bound_by(home)) if home is not None else set()
    return bool(names) and home is not None and scope.only_shows(home, names)


class _Scope:
    """The statements of a function or of a file's body, and what in them plots."""

    def __init__(self, unit: ir.Unit, body: ir.Block) -> None:
        found = list(walk(body, False))
        self.statements = [node for node in found if isinstance(node, ir.Stmt)]
        self.inner = [node for node in found if isinstance(node, (ir.FunctionDef, ir.ClassDef, ir.Lambda))]
        self.heads = {each.at: tuple(walk(_head(each), True)) for each in self.statements}
        self.painters = {
            each.name for each in unit.body if isinstance(each, ir.FunctionDef) and _only_plots(unit, each)
        }
        self.plots = _plotting(unit)
        for _ in range(2):  # ``fig = plt.figure()``, ``ax = fig.add_subplot(111)``
            for each in self.statements:
                if isinstance(each, ir.Assign) and isinstance(each.value, ir.Call) and _root(each.value) in self.plots:
                    self.plots |= set(_bound_by(each))

    def only_shows(self, home: ir.Stmt, names: set[str]) -> bool:
        """Whether all that reads some names shows, or names, what it makes of them."""
        is_shown, size = False, 0
        while size != len(names):
            size = len(names)
            for each in self.statements:
                if each is home or not self._reads(each, names):
                    continue
                more = set(_bound_by(each))
                is_painted = self.paints(each)
                if not more and not is_painted and not _prints(each):
                    return False
                names |= more
                is_shown = is_shown or is_painted
        return is_shown and not any(_reads_outer(each, names) for each in self.inner)

    def _reads(self, node: ir.Stmt, names: set[str]) -> bool:
        bound = {id(part) for part in walk(tuple(_targets(node)), True) if isinstance(part, ir.Name)}
        is_plain = bool(_bound_by(node))
        return any(
            isinstance(part, ir.Name) and part.id in names and not (is_plain and id(part) in bound)
            for part in self.heads[node.at]
        )

    def paints(self, node: ir.Stmt) -> bool:
        """Whether a statement is a call that plots, or writes a picture."""
        call = node.value if isinstance(node, ir.Evaluate) else None
        if not isinstance(call, ir.Call):
            return False
        root, last = _root(call), call.callee.attr if isinstance(call.callee, ir.Attribute) else _root(call)
        is_painter = isinstance(call.callee, ir.Name) and root in self.painters
        return root in self.plots or last in _PICTURES or is_painter


@remembered(maxsize=4)
def _scope(unit: ir.Unit, body: ir.Block) -> _Scope:
    """Rules ask for each draw of a body."""
    return _Scope(unit, body)


def _prints(node: ir.Stmt) -> bool:
    call = node.value if isinstance(node, ir.Evaluate) else None
    return isinstance(call, ir.Call) and dotted(call.callee) == "print"


def _is_at(part: object, site: Site) -> bool:
    return isinstance(part, ir.Call) and part.at == site.at


def _head(node: ir.Stmt) -> tuple[object, ...]:
    """A statement without the blocks inside of it."""
    if isinstance(node, ir.For):
        return (node.target, node.iter)
    if isinstance(node, (ir.If, ir.While)):
        return (node.test,)
    if isinstance(node, ir.With):
        return tuple(part for pair in node.items for part in pair if part is not None)
    if isinstance(node, ir.Match):
        return (node.subject,)
    return () if isinstance(node, (ir.Try, ir.FunctionDef, ir.ClassDef)) else (node,)


def _targets(node: ir.Stmt) -> tuple[ir.Expr, ...]:
    if isinstance(node, ir.Assign):
        return node.targets
    return (node.target,) if isinstance(node, (ir.For, ir.Augment)) else ()


def _bound_by(node: ir.Stmt) -> list[str]:
    """The variables that a statement gives what it reads, if it gives that to nothing else."""
    targets = _targets(node)
    plain = [name for target in targets for name in target_names(target)]
    parts = [part for target in targets for part in walk((target,), True)]
    return [] if any(isinstance(part, (ir.Attribute, ir.Subscript)) for part in parts) else plain


def _root(node: ir.Expr) -> str:
    """``axs`` of ``axs[0].imshow(x)``."""
    while isinstance(node, (ir.Attribute, ir.Subscript, ir.Call)):
        node = node.callee if isinstance(node, ir.Call) else node.value
    return node.id if isinstance(node, ir.Name) else ""


def _reads_outer(node: ir.FunctionDef | ir.ClassDef | ir.Lambda, names: set[str]) -> bool:
    """Whether a function or class inside reads one of some variables from around it."""
    parts = list(walk((node,), True))
    bound = {name for part in parts if isinstance(part, ir.Stmt) for name in _bound_by(part)}
    for part in parts:
        if isinstance(part, (ir.FunctionDef, ir.Lambda)):
            bound |= {param.name for param in part.params}
    return any(isinstance(part, ir.Name) and part.id in names - bound for part in parts)
