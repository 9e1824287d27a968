"""PF212 unregistered-state."""

from __future__ import annotations

import re

from analyzer.engine.events import Escape
from analyzer.engine.optim_events import Unregistered
from analyzer.engine.program import Program
from analyzer.engine.trace import Gap, start
from analyzer.engine.words import words
from analyzer.findings import Severity
from analyzer.fixes.edits import InsertAfter, InsertBefore
from analyzer.rules.base import DraftFix, Report, Rule
from analyzer.rules.by_hand import is_handled, is_read_elsewhere, is_stored_by_hand
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_RUNS = re.compile(rb"\bbackward\(|\boptim\b|DataLoader|__main__")
"""A file that trains, or is started, says itself what is moved."""
_MOVED = re.compile(rb"cuda|\.to\(|device|lightning|accelerate|Trainer\b")
_MOVES = re.compile(r"\.(?:to|cuda|cpu|float|half|double|type)\b")
_TO_GPU = re.compile(r"\.cuda\b|'cuda")
_TO_VARIABLE = re.compile(r"\)\.to\((?:device=)?[a-zA-Z_][\w.]*\)$")
_WRAP = {"list": "ModuleList", "tuple": "ModuleList", "set": "ModuleList"}
_MESSAGES = {
    "modules": "A plain {kind} {{does hide}} the modules of `self.{name}` from `parameters()`, `to()`, `state_dict()` "
    "and `train()`. Use `nn.ModuleList` or `nn.ModuleDict`.",
    "unread": "If `self.{name}` holds modules, this plain {kind} {{does hide}} them from `parameters()`, `to()`, "
    "`state_dict()` and `train()`. Use `nn.ModuleList` or `nn.ModuleDict`.",
    "parameters": "A plain {kind} {{does hide}} the parameters of `self.{name}` from the optimizer and from `to()`. "
    "Use `nn.ParameterList` or `nn.ParameterDict`.",
    "parameter": "`self.{name}` requires gradients and {{is}} not registered: it is no `nn.Parameter` itself, so no "
    "optimizer gets it from `parameters()`.",
    "buffer": "`self.{name}` {{is}} a plain tensor that the module uses and does not register: it stays where it was "
    "made when the module moves, and is not saved. Use `register_buffer`.",
}


class UnregisteredState(Rule):
    """A module keeps layers, parameters or buffers where it does not see them.

    ## Why it matters
    ``nn.Module`` registers attributes that are modules or parameters, not what lies in a plain list or dict. Hidden
    layers are in no ``parameters()``: the optimizer never trains them, ``to(device)`` leaves them behind, checkpoints
    lack them, ``train()`` and ``eval()`` do not reach them.

    ## Example
    ```python
    self.layers = [nn.Linear(dim, dim) for _ in range(depth)]
    ```

    ## Use instead
    ```python
    self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])
    ```

    ## When it stays quiet
    When the same layers are registered as well (``nn.Sequential(*self.layers)``, ``add_module``, ``setattr``), also
    by another method or in another module; for a list of one that is read as ``self.teacher[0]`` or unpacked; when
    the class hands them out itself (its own ``parameters()``); for layers without weights; for modules that the
    instance was given and may hide on purpose (a teacher in a list); for tensors that are moved where they are used,
    indices, single numbers, and tensors made on a device; when nothing reads the attribute. A plain tensor is a note:
    a model that never leaves the CPU works with it; so are those that require gradients and are handed to an
    optimizer of their own, or whose gradients the class asks for, a parameter that moves to a device of which only the
    name is known, and what some code moves, switches or asks for its parameters by hand: it may hand them to an
    optimizer as well; so is a tuple that is called, which a comma too much has made, and a list of layers whose code
    was not read, which ``forward`` calls one by one.

    ## Fix safety
    Unsafe: registered layers are trained, moved and saved, which is the point; old checkpoints lack them.
    """

    code = "PF212"
    name = "unregistered-state"
    severity = Severity.ERROR
    is_note_when_likely = True
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """Each attribute that hides something."""
        for hidden in program.of(Unregistered):
            report(
                hidden.site,
                _MESSAGES[hidden.what].format(name=hidden.name, kind=hidden.container),
                because=[hidden.value, start(hidden.used, "used here")],
                gaps=_gaps(program, hidden),
                severity=Severity.NOTE
                if hidden.what in {"buffer", "unread"}
                or _may_be_there(program, hidden)
                or _is_trained_apart(program, hidden)
                or _is_called(program, hidden)
                or _is_differentiated(program, hidden)
                else None,
                fix=_fix(hidden),
            )


def _may_be_there(program: Program, hidden: Unregistered) -> bool:
    """Whether a parameter is moved to a device that a variable names: where it is made there, nothing is lost."""
    return hidden.what == "parameter" and bool(_TO_VARIABLE.search(program.sources.text(hidden.site)))


def _is_called(program: Program, hidden: Unregistered) -> bool:
    """Whether the container itself is called (``self.up = nn.Conv2d(3, 3, 1),``): a comma is wrong, in a branch
    that has never run."""
    cls = program.objects[hidden.owner].cls if hidden.container == "tuple" else None
    parts = walk((cls.node,), True) if cls is not None else ()
    return any(isinstance(part, ir.Call) and dotted(part.callee) == f"self.{hidden.name}" for part in parts)


def _is_differentiated(program: Program, hidden: Unregistered) -> bool:
    """Whether the class asks for the gradients of what is hidden (``torch.autograd.grad(loss, self.weights)``), and
    applies them itself: an inner loop of a meta-learner or an attack needs no optimizer."""
    cls = program.objects[hidden.owner].cls
    calls = (part for part in walk((cls.node,), True) if isinstance(part, ir.Call)) if cls is not None else ()
    given = (arg.value for call in calls if last_name(call.callee) == "grad" for arg in call.args)
    return any(
        dotted(part) == f"self.{hidden.name}"
        for each in given
        for part in walk((each,), True)
        if isinstance(part, ir.Attribute)
    )


def _is_trained_apart(program: Program, hidden: Unregistered) -> bool:
    """Whether the file hands what requires gradients to an optimizer of its own: ``SGD([self.bias], lr=0.5)``,
    ``Adam(self.weights + self.biases)``, or a method of the class gathers it with other parameters. It is trained; that
    it is not moved nor saved may be meant."""
    if hidden.what not in {"parameter", "parameters"}:
        return False
    cls = program.objects[hidden.owner].cls
    methods = (each for each in cls.node.body if isinstance(each, ir.FunctionDef)) if cls is not None else ()
    gathering = (each for each in methods if "param" in each.name)
    if any(dotted(part) == f"self.{hidden.name}" for each in gathering for part in walk(each.body, True)
           if isinstance(part, ir.Attribute)):  # fmt: skip
        return True
    calls = (node for node in of_type(program.unit(hidden.site.path), ir.Call) if node.args)
    given = (call.args[0].value for call in calls if last_name(call.callee)[:1].isupper())
    listed = (each for each in given if isinstance(each, (ir.Display, ir.Operation, ir.Attribute)))
    return any(
        isinstance(part, ir.Attribute) and part.attr == hidden.name for each in listed for part in walk((each,), True)
    )


def _gaps(program: Program, hidden: Unregistered) -> list[Gap]:
    """Code that was not seen may register; a tensor that never leaves the CPU does no harm."""
    if hidden.what == "unread":
        return [Gap.CONVENTION]
    handed = any(event.how == "call" and hidden.owner in event.objects for event in program.of(Escape))
    if hidden.what != "buffer" and (handed or _registers(program, hidden)):
        return [Gap.UNSEEN]
    if hidden.what != "buffer" and _is_in_hand(program, hidden):
        return [Gap.CONVENTION]  # what `nn.Module` would do is done by hand, perhaps all of it
    said = words(program).of(hidden.site)
    if hidden.what == "parameter" and _MOVES.search(said) and not _TO_GPU.search(said):
        return [Gap.CONVENTION]  # where it is already there, a move gives the parameter itself
    if hidden.what != "buffer":
        return []
    source = program.project.read(hidden.site.path) or b""
    is_moved = _MOVED.search(source) or not _RUNS.search(source)  # a file of networks leaves it to others to move them
    return [Gap.CONVENTION if is_moved else Gap.UNSEEN]


def _is_in_hand(program: Program, hidden: Unregistered) -> bool:
    """Whether code moves what is hidden, asks it for parameters, or reads the parameter that nothing registers."""
    path = hidden.site.path
    function = program.function_around(hidden.site)
    if is_handled(program, hidden.name, path) or (function is not None and is_stored_by_hand(function, hidden.name)):
        return True
    return hidden.what != "modules" and is_read_elsewhere(program, hidden.name, path)


def _registers(program: Program, hidden: Unregistered) -> bool:
    """Whether a method of the class registers what it is given, under a name that it makes: a helper for lists."""
    cls = program.objects[hidden.owner].cls
    methods = [each for each in cls.node.body if isinstance(each, ir.FunctionDef)] if cls is not None else []
    calls = (part for method in methods for part in walk(method.body, True) if isinstance(part, ir.Call))
    return any(
        dotted(call.callee) in {"self.register_parameter", "self.add_module", "self.register_module"}
        and not any(isinstance(arg.value, ir.Constant) for arg in call.args[:1])
        for call in calls
    )


def _fix(hidden: Unregistered) -> DraftFix | None:
    if hidden.what != "modules" or hidden.prefix is None or hidden.container not in _WRAP:
        return None
    wrapper = f"{hidden.prefix}{_WRAP[hidden.container]}"
    edits = (InsertBefore(hidden.site.at, f"{wrapper}("), InsertAfter(hidden.site.at, ")"))
    return DraftFix(f"Keep them in `{wrapper}`", "unsafe", edits)
