"""Files to start no program at: nothing in them can be the act that a rule speaks of.

Most files of a library define layers, settings, operators. A rule speaks of what a program *does*: it trains,
evaluates, loads, saves, seeds, reads data, computes a loss. Where a file names nothing of that (`ACTS`), only what a
rule sees in the definition of a module is left: something it does not register, dropout that minds no mode, copies and
waits in a loop. Those are looked for in the shape of the code (`_is_shown`), on the wide side. A file with neither is
read where another imports it, and is not interpreted for its own sake.

Left aside so is what shows only when a file without any of these words calls one that has them; the latter is a target
of its own. See ``docs/decisions/0013``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from analyzer.screen import REMARK
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, target_names, walk

_ACTS = (
    ((b"backward(",), rb"(?<!def )\bbackward\("),
    ((b"autograd",), rb"autograd\.(?:grad|backward)\b|autograd import[^\n]*\b(?:grad|backward)\b"),
    ((b"zero_grad",), rb"zero_grad"),
    ((b".step",), rb"\.step\b"),
    ((b"optim",), rb"\boptim\b"),
    ((b"ptimizer",), rb"[oO]ptimizers?\("),
    ((b"train",), rb"\btrain\w*\("),
    ((b"Trainer",), rb"Trainer\b"),
    ((b".fit",), rb"\.fit\w*\("),
    ((b"_step",), rb"(?:train|val|test|predict)\w{0,80}_step\b"),
    ((b".eval(",), rb"\.eval\("),
    ((b"evaluate",), rb"\bevaluate\w*\("),
    ((b"valid",), rb"\bvalid(?:ate)?\("),
    ((b"test(",), rb"\btest\("),
    ((b"infer(",), rb"\binfer\("),
    ((b"oader",), rb"[lL]oader\b"),
    ((b"load(",), rb"\b(?:torch|th|t)\.load\(|(?<![\w.])load\("),
    ((b"load_checkpoint", b"load_model"), rb"load_checkpoint|load_model"),
    ((b"state_dict(",), rb"\.state_dict\(|load_state_dict\("),
    ((b"parameters(",), rb"\bparameters\(\)|named_parameters\("),
    ((b"save",), rb"\bsave\w*\("),
    ((b"seed",), rb"seed\w{0,80}\("),
    ((b"RandomState(", b"default_rng("), rb"RandomState\(|default_rng\("),
    ((b"__main__",), rb"__main__"),
    ((b"oss(",), rb"[lL]oss\("),
    ((b"cross_entropy", b"CrossEntropy"), rb"cross_entropy|CrossEntropy"),
    ((b"nll_loss", b"NLLLoss", b"kl_div", b"KLDiv"), rb"nll_loss|NLLLoss|kl_div|KLDiv"),
    ((b"criterion(",), rb"criterion\("),
    ((b"lightning", b"fastai", b"skorch", b"mmengine", b"mmcv", b"composer", b"ignite"),
     rb"lightning|fastai|skorch|mmengine|mmcv|composer|ignite"),
    ((b"deepspeed.", b"Accelerator("), rb"deepspeed\.|Accelerator\("),
)  # fmt: skip
"""What a program does that a rule speaks of. Before each pattern the words of which it holds one: a look for a word
takes a hundredth of a pattern's time, and most files have few of them. No name is longer than 80 letters: one that is
(``seedseedseed…``) would take time with the square of its length."""
_COMPILED = tuple((words, re.compile(pattern)) for words, pattern in _ACTS)
_LINE_END = re.compile(rb"\r\n?")
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
_OTHERS = frozenset({"re", "math", "os", "json", "logging", "time"})
_FILLS = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})
_REGISTERED = frozenset({"ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict", "Parameter"})


Made = Mapping[str, "list[ir.Expr | None]"]


def is_quiet(source: bytes, unit: ir.Unit | None) -> bool:
    """Whether no rule has anything to say of the program that starts at a file."""
    return unit is not None and not acts(source) and not is_shown(unit, has_modules(said(source)))


@lru_cache(maxsize=2)
def said(source: bytes) -> bytes:
    """A file without its comments and texts of several lines; what is left stands on the lines where it stood."""
    return REMARK.sub(_line_ends, _LINE_END.sub(b"\n", source))


def _line_ends(match: re.Match[bytes]) -> bytes:
    return b"\n" * match.group().count(b"\n")


@lru_cache(maxsize=2)
def acts(source: bytes) -> tuple[int, ...]:
    """Where a file, without its remarks, names what a program does, by kind."""
    text = said(source)
    present = (pattern for words, pattern in _COMPILED if any(word in text for word in words))
    return tuple(match.start() for pattern in present for match in pattern.finditer(text))


def has_modules(source: bytes) -> bool:
    """Whether a file, without its remarks, names a module of PyTorch."""
    return _MODULES.search(source) is not None


def is_shown(unit: ir.Unit, has_modules: bool) -> bool:
    """Whether a rule may see something in what a file defines, in a module if there are any."""
    return (
        next(working(unit), None) is not None
        or (has_modules and any(next(hidden(cls), None) is not None for cls in of_type(unit, ir.ClassDef)))
        or (has_modules and next(dropping(unit), None) is not None)
        or next(running(unit), None) is not None
        or next(moving(unit), None) is not None
    )


def working(unit: ir.Unit) -> Iterator[int]:
    """The numbers of the statements of the body of the file that work: loops, or with tensors."""
    runs = (node for node in unit.body if not isinstance(node, (ir.FunctionDef, ir.ClassDef, ir.Import, ir.ImportFrom)))
    return (node.at for node in runs if isinstance(node, (ir.For, ir.While)) or _makes_tensor((node,)))


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


def hidden(cls: ir.ClassDef) -> Iterator[str]:
    """The attributes in which a class may keep layers, parameters or tensors where a module does not see them."""
    methods = {each.name: each for each in cls.body if isinstance(each, ir.FunctionDef)}
    init = methods.get("__init__")
    if init is None or not cls.bases or not init.params:
        return
    this = init.params[0].name
    building = (init, *(methods[name] for name in _own_calls(init, this) if name in methods))
    for method in building:
        yield from _kept(method, building)


def _own_calls(function: ir.FunctionDef, this: str) -> list[str]:
    """The methods of its own object that a function calls."""
    return [name[len(this) + 1 :] for name, how in function.uses.items() if "()" in how and name.startswith(f"{this}.")]


def _kept(method: ir.FunctionDef, building: tuple[ir.FunctionDef, ...]) -> Iterator[str]:
    """The attributes that are given anything but a layer, a setting or a number that are plain to see."""
    assigns = [node for node in walk(method.body, into_functions=False) if isinstance(node, ir.Assign)]
    made = _locals(assigns)
    for node in assigns:
        for target in node.targets:
            if isinstance(target, ir.Name) or node.value is None or _is_plain(node.value, made):
                continue
            if isinstance(target, ir.Display) and isinstance(node.value, ir.Call) and _last(node.value.callee) in made:
                continue  # ``a, self.b = function(…)`` of what a variable holds: nobody sees what is in it
            if not (_is_empty(node.value) and isinstance(target, ir.Attribute) and not _is_filled(building, target)):
                yield from _attributes(target)


def _locals(assigns: list[ir.Assign]) -> Made:
    """What the variables of a function are given; None for what cannot be said."""
    made: dict[str, list[ir.Expr | None]] = {}
    for node in assigns:
        for target in node.targets:
            if isinstance(target, ir.Name):
                made.setdefault(target.id, []).append(node.value)
            elif isinstance(target, ir.Display):
                for name in target_names(target):
                    made.setdefault(name, []).append(None)
            elif isinstance(target, ir.Subscript) and isinstance(target.value, ir.Name):
                made.setdefault(target.value.id, []).append(None)
    return made


def _attributes(target: ir.Expr) -> list[str]:
    """The names of the attributes that an assignment sets, or sets something in: none where it sets variables."""
    return [node.attr for node in walk((target,), into_functions=False) if isinstance(node, ir.Attribute)]


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


def _is_plain(value: ir.Expr | None, made: Made) -> bool:
    if value is None or isinstance(value, (ir.Constant, ir.Attribute, ir.Lambda, ir.Joined)):
        return True
    if isinstance(value, ir.Name):
        others = {name: given for name, given in made.items() if name != value.id}
        return all(given is not None and _is_plain(given, others) for given in made.get(value.id, ()))
    if isinstance(value, ir.Call):
        return _is_plain_call(value)
    if isinstance(value, ir.Operation):
        return _is_plain(value.left, made) and _is_plain(value.right, made) and not _makes(value)
    if isinstance(value, ir.Conditional):
        return _is_plain(value.body, made) and _is_plain(value.orelse, made)
    if isinstance(value, ir.Subscript):
        return isinstance(value.value, (ir.Name, ir.Attribute, ir.Subscript))
    if isinstance(value, ir.Display) and value.items:
        return all(_is_plain(item, made) and not isinstance(item, ir.Call) for item in value.items)
    if isinstance(value, ir.DictDisplay) and value.items:
        return all(_is_plain(item, made) and not isinstance(item, ir.Call) for _, item in value.items)
    return False


def _is_plain_call(call: ir.Call) -> bool:
    """``nn.Linear(…)``, ``AutoModel.from_config(…)``, ``len(…)``: one layer, or a number."""
    name, callee = _last(call.callee), call.callee
    if name in _REGISTERED or name in _PLAIN or (dotted(callee) or "").partition(".")[0] in _OTHERS:
        return True
    if isinstance(callee, ir.Attribute) and name.lstrip("_").startswith("from_") and _last(callee.value)[:1].isupper():
        return True
    return name[:1].isupper() and name not in _FACTORIES and name != "OrderedDict"


def _makes(value: ir.Expr) -> bool:
    """``nn.Parameter(x) * 2`` is no parameter."""
    return any(name[:1].isupper() for name in _called((value,)))


# --- what is left out whatever the mode ------------------------------------------------------------------------------


def dropping(unit: ir.Unit) -> Iterator[ir.FunctionDef]:
    """The functions that drop something out whatever the mode."""
    return (function for function in of_type(unit, ir.FunctionDef) if _drops(function))


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


def running(unit: ir.Unit) -> Iterator[ir.FunctionDef]:
    """The functions, no methods, that run the model they are given in a loop."""
    methods = {id(each) for cls in of_type(unit, ir.ClassDef) for each in cls.body}
    functions = (function for function in of_type(unit, ir.FunctionDef) if id(function) not in methods)
    return (function for function in functions if _runs_given(function))


def _runs_given(function: ir.FunctionDef) -> bool:
    """Whether a function that is given a model runs it in a loop."""
    is_given = any("()" in function.uses.get(param.name, ()) for param in function.params)
    return is_given and any(isinstance(node, (ir.For, ir.While)) for node in walk(function.body, into_functions=False))


def moving(unit: ir.Unit) -> Iterator[int]:
    """The numbers of the loops that copy what may have been made outside of them, or in which one waits for the
    accelerator."""
    loops: list[ir.For | ir.While] = [*of_type(unit, ir.For), *of_type(unit, ir.While)]
    makes = None
    for loop in loops:
        inside = list(walk(loop.body, into_functions=False))
        attrs = {node.attr for node in inside if isinstance(node, ir.Attribute)}
        if attrs & {"to", "cuda"}:
            makes = any(_last_of(name) in _FACTORIES for name in unit.uses) if makes is None else makes
            if makes:
                yield loop.at
                continue
        if attrs & _WAITS and any(_waits(node) for node in inside if isinstance(node, (ir.For, ir.While))):
            yield loop.at


def _waits(loop: ir.For | ir.While) -> bool:
    return any(isinstance(node, ir.Attribute) and node.attr in _WAITS for node in walk(loop.body, into_functions=False))


def _last_of(name: str) -> str:
    return name.rpartition(".")[2]
