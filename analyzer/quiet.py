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
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache

from analyzer.hidden_state import FACTORIES, called_in, hiding
from analyzer.plain_losses import plain_functions
from analyzer.screen import REMARK
from analyzer.still_loops import StillLoops
from analyzer.syntax import ir
from analyzer.syntax.remembered import remembered
from analyzer.syntax.scope import dotted, last_name, of_type, walk

_ACTS = (
    ((b"backward(",), rb"backward\((?<=\bbackward\()(?<!def backward\()"),
    ((b"autograd",), rb"autograd\.(?:grad|backward)\b|autograd import[^\n]*\b(?:grad|backward)\b"),
    ((b"zero_grad",), rb"zero_grad"),
    ((b".step",), rb"\.step\b"),
    ((b"optim",), rb"optim(?<=\boptim)\b"),
    ((b"ptimizer",), rb"[oO]ptimizers?\("),
    ((b"train",), rb"train(?<=\btrain)\w*\("),
    ((b"Trainer",), rb"Trainer\b"),
    ((b".fit",), rb"\.fit\w*\("),
    ((b"_step",), rb"(?:train|val|test|predict)\w{0,80}_step\b"),
    ((b".eval(",), rb"\.eval\("),
    ((b"evaluate",), rb"evaluate(?<=\bevaluate)\w*\("),
    ((b"valid",), rb"valid(?<=\bvalid)(?:ate)?\("),
    ((b"test(",), rb"test\((?<=\btest\()"),
    ((b"infer(",), rb"infer\((?<=\binfer\()"),
    ((b"oader",), rb"[lL]oader\b"),
    ((b"load(",), rb"load\((?:(?<=\btorch\.load\()|(?<=\bth\.load\()|(?<=\bt\.load\()|(?<![\w.]load\())"),
    ((b"load_checkpoint", b"load_model"), rb"load_checkpoint|load_model"),
    ((b"seed",), rb"seed\w{0,80}\("),
    ((b"RandomState(", b"default_rng("), rb"RandomState\(|default_rng\("),
    ((b"__main__",), rb"__main__"),
    ((b"osine",), rb"cosine_similarity|CosineSimilarity"),
    ((b"lightning", b"fastai", b"skorch", b"mmengine", b"mmcv", b"composer", b"ignite"),
     rb"lightning|fastai|skorch|mmengine|mmcv|composer|ignite"),
    ((b"deepspeed.", b"Accelerator("), rb"deepspeed\.|Accelerator\("),
)  # fmt: skip
"""What a program does that a rule speaks of. Before each pattern the words of which it holds one: a look for a word
takes a hundredth of a pattern's time, and most files have few of them. A pattern begins with its word, which `re` finds
as fast, and looks back from there. No name is longer than 80 letters: one that is
(``seedseedseed…``) would take time with the square of its length."""
_LOSSES = (
    ((b"oss(",), rb"[lL]oss\("),
    ((b"cross_entropy", b"CrossEntropy"), rb"cross_entropy|CrossEntropy"),
    ((b"nll_loss", b"NLLLoss", b"kl_div", b"KLDiv"), rb"nll_loss|NLLLoss|kl_div|KLDiv"),
    ((b"criterion(",), rb"criterion\("),
)  # fmt: skip
"""Losses, of which those in `plain_functions` tell nothing."""
_IN_PLACE = re.compile(rb"\.(?:mul_|add_|lerp_)\(")
_SHARE = re.compile(rb"\b1(?:\.0?)?[ ]*-[ ]*\w")
_IN_TABLE = re.compile(rb"\b(\w{1,80})\[[^\]\n]{1,80}\][ ]*=(?!=)(?s:.{0,300}?)\b\1\[")
_DEF = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]", re.MULTILINE)
_WEIGHTS = re.compile(rb"param|state|weight|shadow|ema|average|model", re.IGNORECASE)
_PROCESSES = re.compile(
    rb"distributed|\bdist\b|_dist\b|\bdist_|init_process|[pP]arallel|ddp|DDP|fsdp|FSDP|horovod|\bhvd\b|[aA]cceler"
    rb"|[fF]abric|bagua|world_size|WORLD|rank\b|RANK|spawn|\bxla|slurm|SLURM"
)


def _is_averaged(text: bytes) -> bool:
    """Whether weights may be mixed into others: in place, or in a table (``shadow[name] = a * shadow[name] + …``)."""
    if _IN_PLACE.search(text) is not None:
        return True
    bodies = (body for body in _DEF.split(text) if _WEIGHTS.search(body) is not None)
    return any((b".copy_(" in body and _SHARE.search(body)) or _IN_TABLE.search(body) for body in bodies)


def _is_restored(text: bytes) -> bool:
    """Whether weights are read and loaded: they may be the same tensors."""
    return (b".state_dict(" in text and b"load_state_dict(" in text) or _is_averaged(text)


def _has_processes(text: bytes) -> bool:
    """Whether a file speaks of several processes: who saves a file there asks for its rank."""
    return _PROCESSES.search(text) is not None


def _is_filled_up(text: bytes) -> bool:
    """Whether a file fills texts up: labels that it puts beside them may be filled up as well."""
    return b"return_tensors" in text and _FILLS_UP.search(text) is not None


def _is_pretrained(text: bytes) -> bool:
    """Whether a file speaks of weights that a network of a library comes with: what it freezes may be such a one."""
    return _COMES_WITH_WEIGHTS.search(text) is not None


def _is_read_out(text: bytes) -> bool:
    """Whether a file reads numbers out of tensors: a norm of gradients may wait for each of them."""
    return b".item()" in text


_FILLS_UP = re.compile(rb"padding[ ]*[=:][ ]*(?:True\b|[\"'](?:longest|max_length))|[\"']padding[\"'][ ]*:")
_COMES_WITH_WEIGHTS = re.compile(rb"pretrained[ ]*=[ ]*True|weights[ ]*=")
_WEAK = (
    ((b"requires_grad",), rb"requires_grad(?:_\([ ]*False|[ ]*=[ ]*False)", _is_pretrained),
    ((b"labels",), rb"labels(?<=[\"']labels)[\"']", _is_filled_up),
    ((b"state_dict(",), rb"state_dict\((?:(?<=\.state_dict\()|(?<=load_state_dict\())", _is_restored),
    ((b"parameters(",), rb"parameters\((?:(?<=named_parameters\()|(?<=\bparameters\()\))", _is_averaged),
    ((b".grad",), rb"\.grad\b", _is_read_out),
    ((b"save",), rb"save(?<=\bsave)(?!_for_backward\()\w*\(", _has_processes),
)
"""Acts that a rule speaks of only beside another one, or in a text of which something else holds."""


def _compiled(
    acts: Iterable[tuple[tuple[bytes, ...], bytes]],
) -> tuple[tuple[tuple[bytes, ...], re.Pattern[bytes]], ...]:
    return tuple((words, re.compile(pattern)) for words, pattern in acts)


_COMPILED = _compiled(_ACTS)
_COMPILED_LOSSES = _compiled(_LOSSES)
_COMPILED_WEAK = tuple((words, re.compile(act), counts) for words, act, counts in _WEAK)
_IMPORTED = re.compile(
    rb"^[ \t]*from[ \t]+[\w.]+[ \t]+import[ \t]*(?:\([^()#]*(?:#[^\n]*\n[^()#]*)*\)|[^\n]*)", re.MULTILINE
)
_LINE_END = re.compile(rb"\r\n?")
_MODULES = re.compile(rb"\bnn\b|Module|\bforward\b")
_DROPS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d"})
_ATTENDS = frozenset({"scaled_dot_product_attention", "flash_attn_func", "memory_efficient_attention"})
_DROPPERS = frozenset({"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
_WAITS = frozenset({"item", "tolist", "cpu", "numpy", "nonzero", "synchronize"})
_DTYPES = frozenset({"dtype", "float32", "float16", "bfloat16", "float64", "int64", "int32", "long", "uint8", "bool"})


def is_quiet(source: bytes, unit: ir.Unit | None) -> bool:
    """Whether no rule has anything to say of the program that starts at a file."""
    return unit is not None and not telling(source, unit) and not is_shown(unit, has_modules(said(source)))


@lru_cache(maxsize=2)
def said(source: bytes) -> bytes:
    """A file without its comments and texts of several lines; what is left stands on the lines where it stood."""
    return REMARK.sub(_line_ends, _LINE_END.sub(b"\n", source))


def _line_ends(match: re.Match[bytes]) -> bytes:
    return b"\n" * match.group().count(b"\n")


@remembered(maxsize=2)
def telling(source: bytes, unit: ir.Unit) -> tuple[int, ...]:
    """Where a file, without its remarks, names what a program does, by kind; nothing, where that tells nothing: plain
    losses, and what is nothing without another act."""
    strong, losses, weak, do_count = _acts(source)
    losses = tuple(_telling_losses(source, unit, losses)) if losses else ()
    return (*strong, *losses, *weak) if strong or losses or do_count else ()


def _telling_losses(source: bytes, unit: ir.Unit, losses: Iterable[int]) -> Iterator[int]:
    """Those that stand in no plain function, and are not only imported."""
    text = said(source)
    plain = plain_functions(unit, source)
    lines = [function.lines for function in of_type(unit, ir.FunctionDef) if function.at in plain]
    begins = [0, *(match.end() for match in re.finditer(rb"\n", text)), len(text)] if lines else []
    spans = [(begins[first - 1], begins[last]) for first, last in (each for each in lines if each)]
    spans = sorted([*spans, *(match.span() for match in _IMPORTED.finditer(text) if b" as " not in match[0])])
    for place in losses:
        index = bisect_right(spans, (place, len(text))) - 1
        if index < 0 or place >= spans[index][1]:
            yield place


@lru_cache(maxsize=2)
def _acts(source: bytes) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool]:
    """Where a file, without its remarks, names what a program does, by kind: acts, losses, weak ones, and whether these
    stand beside what makes them count."""
    text = said(source)
    strong, losses = (
        tuple(
            match.start()
            for words, pattern in acts
            if any(word in text for word in words)
            for match in pattern.finditer(text)
        )
        for acts in (_COMPILED, _COMPILED_LOSSES)
    )
    present = [each for each in _COMPILED_WEAK if any(word in text for word in each[0]) and each[1].search(text)]
    do_count = not strong and any(counts(text) for _, _, counts in present)
    return strong, losses, tuple(match.start() for _, act, _ in present for match in act.finditer(text)), do_count


def has_modules(source: bytes) -> bool:
    """Whether a file, without its remarks, names a module of PyTorch."""
    return any(word in source for word in (b"nn", b"Module", b"forward")) and _MODULES.search(source) is not None


def is_shown(unit: ir.Unit, has_modules: bool) -> bool:
    """Whether a rule may see something in what a file defines, in a module if there are any."""
    return (
        next(working(unit), None) is not None
        or (has_modules and next(hiding(unit), None) is not None)
        or (has_modules and next(dropping(unit), None) is not None)
        or next(running(unit), None) is not None
        or next(moving(unit), None) is not None
    )


def working(unit: ir.Unit) -> Iterator[int]:
    """The numbers of the statements of the body of the file that work: loops, or with tensors."""
    runs = (node for node in unit.body if not isinstance(node, (ir.FunctionDef, ir.ClassDef, ir.Import, ir.ImportFrom)))
    return (node.at for node in runs if isinstance(node, (ir.For, ir.While)) or _makes_tensor((node,)))


def _makes_tensor(block: Iterable[object]) -> bool:
    return any(name in FACTORIES for name in called_in(block))


# --- what a module keeps ---------------------------------------------------------------------------------------------


# --- what is left out whatever the mode ------------------------------------------------------------------------------


def dropping(unit: ir.Unit) -> Iterator[ir.FunctionDef]:
    """The functions that drop something out whatever the mode."""
    return (function for function in of_type(unit, ir.FunctionDef) if _drops(function))


def _drops(function: ir.FunctionDef) -> bool:
    called = (name.rpartition(".") for name, how in function.uses.items() if "()" in how)
    own = f"{function.params[0].name}" if function.params else ""
    names = {name for of, _, name in called if of != own or name not in _DROPS}  # ``self.dropout(x)`` calls a layer
    if function.name != "__init__" and names & _DROPPERS:
        return True
    if not names & (_DROPS | _ATTENDS):
        return False
    calls = (node for node in walk(function.body, into_functions=True) if isinstance(node, ir.Call))
    return any(_minds_no_mode(node, own) for node in calls)


def _minds_no_mode(call: ir.Call, own: str) -> bool:
    name, given = last_name(call.callee), {arg.keyword for arg in call.args}
    if name in _DROPS and isinstance(call.callee, ir.Attribute) and dotted(call.callee.value) == own:
        return False
    if name in _DROPS:
        return "training" not in given and len(call.args) < 3 and not any(arg.star for arg in call.args)
    return name in _ATTENDS and (bool(given & {"dropout_p", "p"}) or len(call.args) > 3)


# --- loops -----------------------------------------------------------------------------------------------------------


def running(unit: ir.Unit) -> Iterator[ir.FunctionDef]:
    """The functions, no methods, that run the model they are given in a loop."""
    methods = {id(each) for cls in of_type(unit, ir.ClassDef) for each in cls.body}
    functions = (function for function in of_type(unit, ir.FunctionDef) if id(function) not in methods)
    return (function for function in functions if _runs_given(function, unit))


def _runs_given(function: ir.FunctionDef, unit: ir.Unit) -> bool:
    """Whether a function that is given a model runs it in a loop."""
    called = [param for param in function.params if "()" in function.uses.get(param.name, ())]
    is_given = any(_may_be_model(param, function, unit) for param in called)
    return is_given and any(isinstance(node, (ir.For, ir.While)) for node in walk(function.body, into_functions=False))


def _may_be_model(param: ir.Param, function: ir.FunctionDef, unit: ir.Unit) -> bool:
    """Whether anything but a call says that a parameter is a module: where its function stands, nothing does otherwise
    (`analyzer.engine.typing`)."""
    if param.annotation is not None:
        return not _is_callable(param.annotation)
    if function.uses[param.name] != {"()"} or _has_text(function):
        return True
    if function.name in unit.uses and not _gets_functions(param, function, unit):
        return True
    names = [
        *function.uses,
        *(dotted(each.callee if isinstance(each, ir.Call) else each) or "" for each in function.decorators),
    ]
    return any(name.rpartition(".")[2] in {"no_grad", "inference_mode"} for name in names)


def _gets_functions(param: ir.Param, function: ir.FunctionDef, unit: ir.Unit) -> bool:
    """Whether every call of a function in its file gives a parameter a function by name: of the file, or of PyTorch."""
    index = next(at for at, each in enumerate(function.params) if each.name == param.name)
    own = {each.name for each in unit.body if isinstance(each, ir.FunctionDef)}
    calls = (call for call in of_type(unit, ir.Call) if isinstance(call.callee, ir.Name))
    for call in (call for call in calls if call.callee.id == function.name):  # type: ignore[attr-defined]
        given = [
            arg.value
            for at, arg in enumerate(call.args)
            if arg.keyword == param.name or (at == index and not arg.keyword)
        ]
        if any(arg.star for arg in call.args) or len(given) != 1:
            return False
        name = dotted(given[0]) or ""
        if not isinstance(given[0], ir.Lambda) and name not in own and not name.startswith(("torch.", "operator.")):
            return False
    return unit.uses[function.name] == {"()"}


def _is_callable(annotation: ir.Expr) -> bool:
    return any(
        last_name(node) == "Callable"
        for node in walk((annotation,), False)
        if isinstance(node, (ir.Name, ir.Attribute))
    )


def _has_text(function: ir.FunctionDef) -> bool:
    """Whether a docstring may say what a function is given."""
    first = function.body[0] if function.body else None
    text = first.value.value if isinstance(first, ir.Evaluate) and isinstance(first.value, ir.Constant) else None
    return isinstance(text, str) and any(word in text for word in ("odule", "odel", "etwork"))


def moving(unit: ir.Unit) -> Iterator[int]:
    """The numbers of the loops that may run a model and copy what may have been made outside of them, or wait for the
    accelerator."""
    loops: list[ir.For | ir.While] = [*of_type(unit, ir.For), *of_type(unit, ir.While)]
    still: StillLoops | None = None
    for loop in loops:
        if _moves(loop, unit):
            still = still or StillLoops(unit)
            if still.may_run(loop):
                yield loop.at


def _moves(loop: ir.For | ir.While, unit: ir.Unit) -> bool:
    inside = list(walk(loop.body, into_functions=False))
    attrs = {node.attr for node in inside if isinstance(node, ir.Attribute)}
    if attrs & {"to", "cuda"} and any(map(_copies, inside)) and any(_last_of(name) in FACTORIES for name in unit.uses):
        return True
    return bool(attrs & _WAITS) and any(_waits(node) for node in inside if isinstance(node, (ir.For, ir.While)))


def _copies(node: object) -> bool:
    """``x.cuda()``, ``x.to(device)``, and not ``x.to(other.dtype)``."""
    if not isinstance(node, ir.Call) or not isinstance(node.callee, ir.Attribute):
        return isinstance(node, ir.Attribute) and node.attr == "cuda"
    return node.callee.attr == "to" and not (
        len(node.args) == 1
        and (node.args[0].keyword == "dtype" or (not node.args[0].star and last_name(node.args[0].value) in _DTYPES))
    )


def _waits(loop: ir.For | ir.While) -> bool:
    return any(isinstance(node, ir.Attribute) and node.attr in _WAITS for node in walk(loop.body, into_functions=False))


def _last_of(name: str) -> str:
    return name.rpartition(".")[2]
