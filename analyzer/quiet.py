"""Files to start no program at: nothing in them can be the act that a rule speaks of.

Most files of a library define layers, settings, operators. A rule speaks of what a program *does*: it trains,
evaluates, loads, saves, seeds, reads data, computes a loss. Where a file names nothing of that (`_ACTS`), only what a
rule sees in the definition of a module is left: something it does not register, dropout that minds no mode, copies and
waits in a loop. Those are looked for in the shape of the code (`_is_shown`), on the wide side. A file with neither is
read where another imports it, and is not interpreted for its own sake.

Left aside so is what shows only when a file without any of these words calls one that has them; the latter is a target
of its own. See ``docs/decisions/0013``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from analyzer.screen import without_remarks
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, walk

_ACTS = re.compile(
    rb"""
      (?<!def\ )\bbackward\(|autograd\.(?:grad|backward)\b|autograd\ import[^\n]*\b(?:grad|backward)\b
    | zero_grad|\.step\b|\boptim\b|[oO]ptimizers?\(|\btrain\w*\(|Trainer\b|\.fit\w*\(
    | (?:train|val|test|predict)\w*_step\b
    | \.eval\(|\bevaluate\w*\(|\bvalid(?:ate)?\(|\btest\(|\binfer\(
    | [lL]oader\b|\b(?:torch|th|t)\.load\(|(?<![\w.])load\(|load_checkpoint|load_model|\.state_dict\(|load_state_dict\(
    | \bparameters\(\)|named_parameters\(|\bsave\w*\(|seed\w*\(|__main__
    | RandomState\(|default_rng\(
    | [lL]oss\(|cross_entropy|CrossEntropy|nll_loss|NLLLoss|kl_div|KLDiv|criterion\(
    | lightning|fastai|skorch|mmengine|mmcv|composer|ignite|deepspeed\.|Accelerator\(
    """,
    re.VERBOSE,
)
_MODULES = re.compile(rb"\bnn\b|Module|\bforward\b")
_DROPS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d"})
_ATTENDS = frozenset({"scaled_dot_product_attention", "flash_attn_func", "memory_efficient_attention"})
_DROPPERS = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
_FACTORIES = frozenset({
    "ones", "zeros", "arange", "linspace", "eye", "randn", "rand", "full", "from_numpy", "tril", "triu", "tensor",
    "as_tensor", "logspace", "Tensor", "FloatTensor", "LongTensor",
})  # fmt: skip
_WAITS = frozenset({"item", "tolist", "cpu", "numpy", "nonzero", "synchronize"})
_PLAIN = frozenset(
    {"len", "int", "float", "bool", "str", "max", "min", "sum", "round", "abs", "getattr", "isinstance", "get"}
)
_FILLS = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})
_REGISTERED = frozenset({"ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict", "Parameter"})


def is_quiet(source: bytes, unit: ir.Unit | None) -> bool:
    """Whether no rule has anything to say of the program that starts at a file."""
    if unit is None:
        return False
    text = without_remarks(source)
    return _ACTS.search(text) is None and not _is_shown(unit, _MODULES.search(text) is not None)


def _is_shown(unit: ir.Unit, has_modules: bool) -> bool:
    """Whether a rule may see something in what a file defines, in a module if there are any."""
    functions = of_type(unit, ir.FunctionDef)
    methods = {id(each) for cls in of_type(unit, ir.ClassDef) for each in cls.body}
    return (
        _is_script(unit)
        or (has_modules and any(_hides(cls) for cls in of_type(unit, ir.ClassDef)))
        or (has_modules and any(_drops(function) for function in functions))
        or any(_runs_given(function) for function in functions if id(function) not in methods)
        or _moves_in_loop(unit)
    )


def _is_script(unit: ir.Unit) -> bool:
    """Whether the body of the file works: in a loop, or with tensors."""
    runs = (node for node in unit.body if not isinstance(node, (ir.FunctionDef, ir.ClassDef, ir.Import, ir.ImportFrom)))
    return any(isinstance(node, (ir.For, ir.While)) or _makes_tensor((node,)) for node in runs)


def _makes_tensor(block: Iterable[object]) -> bool:
    return any(name in _FACTORIES for name in _called(block))


def _called(block: Iterable[object]) -> Iterator[str]:
    """The last names of what is called."""
    for node in walk(tuple(block), into_functions=False):
        if isinstance(node, ir.Call):
            yield _last(node.callee)


def _last(callee: ir.Expr) -> str:
    return callee.attr if isinstance(callee, ir.Attribute) else callee.id if isinstance(callee, ir.Name) else ""


# --- what a module keeps ---------------------------------------------------------------------------------------------


def _hides(cls: ir.ClassDef) -> bool:
    """Whether a class may keep layers, parameters or tensors where a module does not see them."""
    methods = {each.name: each for each in cls.body if isinstance(each, ir.FunctionDef)}
    init = methods.get("__init__")
    if init is None or not cls.bases or not init.params:
        return False
    this = init.params[0].name
    building = (init, *(methods[name] for name in _own_calls(init, this) if name in methods))
    return any(_keeps(method, building) for method in building)


def _own_calls(function: ir.FunctionDef, this: str) -> list[str]:
    """The methods of its own object that a function calls."""
    return [name[len(this) + 1 :] for name, how in function.uses.items() if "()" in how and name.startswith(f"{this}.")]


def _keeps(method: ir.FunctionDef, building: tuple[ir.FunctionDef, ...]) -> bool:
    """Whether an attribute is given anything but a layer, a setting or a number that are plain to see."""
    assigns = [node for node in walk(method.body, into_functions=False) if isinstance(node, ir.Assign)]
    made = {target.id for node in assigns for target in node.targets if isinstance(target, ir.Name)}
    for node in assigns:
        for target in node.targets:
            if isinstance(target, ir.Name) or node.value is None or _is_plain(node.value, made):
                continue
            if not (_is_empty(node.value) and isinstance(target, ir.Attribute) and not _is_filled(building, target)):
                return True
    return False


def _is_empty(value: ir.Expr) -> bool:
    return isinstance(value, (ir.Display, ir.DictDisplay)) and not value.items


def _is_filled(building: tuple[ir.FunctionDef, ...], target: ir.Attribute) -> bool:
    """Whether something is put into an attribute that begins empty, while the instance is built."""
    name = dotted(target) or ""
    for method in building:
        if any(use.partition("(")[0] in _FILLS for use in method.uses.get(name, ())):
            return True
        nodes = walk(method.body, into_functions=False)
        if any(isinstance(node, ir.Subscript) and dotted(node.value) == name for node in nodes):
            return True
    return False


def _is_plain(value: ir.Expr | None, made: set[str]) -> bool:
    if value is None or isinstance(value, (ir.Constant, ir.Attribute, ir.Lambda, ir.Joined)):
        return True
    if isinstance(value, ir.Name):
        return value.id not in made
    if isinstance(value, ir.Call):
        return _is_plain_call(value)
    if isinstance(value, ir.Operation):
        return _is_plain(value.left, made) and _is_plain(value.right, made) and not _makes(value)
    if isinstance(value, ir.Conditional):
        return _is_plain(value.body, made) and _is_plain(value.orelse, made)
    if isinstance(value, ir.Subscript):
        return isinstance(value.value, (ir.Name, ir.Attribute))
    if isinstance(value, ir.Display) and value.items:
        return all(_is_plain(item, made) and not isinstance(item, ir.Call) for item in value.items)
    if isinstance(value, ir.DictDisplay) and value.items:
        return all(_is_plain(item, made) and not isinstance(item, ir.Call) for _, item in value.items)
    return False


def _is_plain_call(call: ir.Call) -> bool:
    """``nn.Linear(…)``, ``AutoModel.from_config(…)``, ``len(…)``: one layer, or a number."""
    name, callee = _last(call.callee), call.callee
    if name in _REGISTERED or name in _PLAIN:
        return True
    if isinstance(callee, ir.Attribute) and name.lstrip("_").startswith("from_") and _last(callee.value)[:1].isupper():
        return True
    return name[:1].isupper() and name not in _FACTORIES and name != "OrderedDict"


def _makes(value: ir.Expr) -> bool:
    """``nn.Parameter(x) * 2`` is no parameter."""
    return any(name[:1].isupper() for name in _called((value,)))


# --- what is left out whatever the mode ------------------------------------------------------------------------------


def _drops(function: ir.FunctionDef) -> bool:
    names = {name.rpartition(".")[2] for name, how in function.uses.items() if "()" in how}
    if function.name != "__init__" and names & _DROPPERS:
        return True
    if not names & (_DROPS | _ATTENDS):
        return False
    calls = (node for node in walk(function.body, into_functions=True) if isinstance(node, ir.Call))
    return any(_minds_no_mode(node) for node in calls)


def _minds_no_mode(call: ir.Call) -> bool:
    name, given = _last(call.callee), {arg.keyword for arg in call.args}
    if name in _DROPS:
        return "training" not in given and len(call.args) < 3 and not any(arg.star for arg in call.args)
    return name in _ATTENDS and (bool(given & {"dropout_p", "p"}) or len(call.args) > 3)


# --- loops -----------------------------------------------------------------------------------------------------------


def _runs_given(function: ir.FunctionDef) -> bool:
    """Whether a function that is given a model runs it in a loop."""
    is_given = any("()" in function.uses.get(param.name, ()) for param in function.params)
    return is_given and any(isinstance(node, (ir.For, ir.While)) for node in walk(function.body, into_functions=False))


def _moves_in_loop(unit: ir.Unit) -> bool:
    """Whether a loop copies what may have been made outside of it, or a loop inside one waits for the accelerator."""
    loops: list[ir.For | ir.While] = [*of_type(unit, ir.For), *of_type(unit, ir.While)]
    makes = None
    for loop in loops:
        inside = list(walk(loop.body, into_functions=False))
        attrs = {node.attr for node in inside if isinstance(node, ir.Attribute)}
        if attrs & {"to", "cuda"}:
            makes = any(_last_of(name) in _FACTORIES for name in unit.uses) if makes is None else makes
            if makes:
                return True
        if attrs & _WAITS and any(_waits(node) for node in inside if isinstance(node, (ir.For, ir.While))):
            return True
    return False


def _waits(loop: ir.For | ir.While) -> bool:
    return any(isinstance(node, ir.Attribute) and node.attr in _WAITS for node in walk(loop.body, into_functions=False))


def _last_of(name: str) -> str:
    return name.rpartition(".")[2]
