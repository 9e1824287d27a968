"""Loops in which no network runs, seen without running anything: they call functions of libraries, methods of tensors
and containers, and functions of their file that do no more.

Rules about loops that copy and wait speak of those that run a model. Everything that may be one, or lead to one, is
taken for it: what was imported from elsewhere, a parameter, an attribute, whatever a call gives.
"""

from __future__ import annotations

import builtins

from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, of_type, target_names, walk

_LIBRARIES = frozenset({
    "torch", "nn", "F", "np", "numpy", "math", "os", "re", "json", "logging", "logger", "warnings", "itertools",
    "random", "time", "collections", "copy", "functools", "operator", "sys", "string", "struct", "io", "gc", "inspect",
    "types",
})  # fmt: skip
_CALLING = frozenset({
    "checkpoint", "checkpoint_sequential", "data_parallel", "vmap", "map", "partial", "reduce", "grad", "jvp", "vjp",
    "jacobian", "functional_call", "starmap", "filterfalse", "takewhile", "groupby", "compile", "apply_along_axis",
    "vectorize", "methodcaller", "apply", "scan", "while_loop", "cond", "filter", "exec", "eval",
    "next", "iter", "__import__",
})  # fmt: skip
"""What may call what it is given, or gives what may be called."""
_BUILT_IN = (
    frozenset(dir(builtins)) | {"cast", "tqdm", "trange", "product", "chain", "defaultdict", "deepcopy"}
) - _CALLING
_OF_DATA = frozenset({
    "abs", "add", "add_", "all", "amax", "amin", "any", "append", "appendleft", "argmax", "argmin", "argsort", "astype",
    "bfloat16", "bool", "chunk", "clamp", "clamp_", "clear", "clone", "contiguous", "copy", "copy_", "count", "cpu",
    "cuda", "cumsum", "decode", "detach", "difference", "dim", "div", "div_", "double", "endswith", "eq", "exp",
    "expand", "expand_as", "extend", "fill_", "find", "flatten", "flip", "float", "floor", "format", "gather", "ge",
    "get", "gt", "half", "index", "index_add_", "index_copy_", "index_select", "insert", "int", "intersection",
    "is_contiguous", "isdigit", "isin", "isinf", "isnan", "item", "items", "join", "keys", "le", "log", "long", "lower",
    "lstrip", "lt", "masked_fill", "masked_fill_", "masked_scatter", "masked_select", "matmul", "max", "mean", "min",
    "movedim", "mul", "mul_", "ndim", "ndimension", "ne", "neg", "new_full", "new_ones", "new_tensor", "new_zeros",
    "nonzero", "norm", "numel", "numpy", "permute", "pop", "popleft", "pow", "prod", "ravel", "remove", "repeat",
    "repeat_interleave", "replace", "reshape", "resize", "reverse", "roll", "round", "rstrip", "scatter", "scatter_",
    "scatter_add_", "setdefault", "shape", "sigmoid", "size", "softmax", "sort", "split", "sqrt", "squeeze", "stack",
    "startswith", "std", "strip", "sub", "sub_", "sum", "swapaxes", "t", "tile", "to", "tobytes", "tolist", "topk",
    "transpose", "tril", "triu", "type", "type_as", "unbind", "unflatten", "unfold", "union", "unique", "unsqueeze",
    "update", "upper", "values", "var", "view", "view_as", "where", "zero_", "zfill", "info", "warning", "warning_once",
    "debug", "is_floating_point", "is_cuda", "device", "dtype", "element_size", "data_ptr", "stride", "groups", "group",
})  # fmt: skip
"""Methods of tensors, arrays, lists, dicts, texts and loggers, which no network has."""


class StillLoops:
    """Answers for the loops of one file."""

    def __init__(self, unit: ir.Unit) -> None:
        self._functions = {node.name: node for node in unit.body if isinstance(node, ir.FunctionDef)}
        self._methods = {
            id(each): {other.name: other for other in cls.body if isinstance(other, ir.FunctionDef)}
            for cls in of_type(unit, ir.ClassDef)
            for each in cls.body
            if isinstance(each, ir.FunctionDef)
        }
        self._inside = [(function.at, function.last, function) for function in of_type(unit, ir.FunctionDef)]
        self._own: dict[int, tuple[bool, list[ir.FunctionDef]]] = {}
        """Whether a function may run a network itself, and those of its file that it calls."""

    def may_run(self, loop: ir.For | ir.While) -> bool:
        """Whether a network may run in the body of a loop."""
        around = [each for first, last, each in self._inside if first <= loop.at <= last]
        function = max(around, key=lambda each: each.at, default=None)
        found, waiting = self._said(loop.body, function)
        seen: set[int] = set()
        while waiting and not found:
            called = waiting.pop()
            if id(called) in seen:
                continue
            seen.add(id(called))
            if id(called) not in self._own:
                self._own[id(called)] = self._said(called.body, called)
            found, others = self._own[id(called)]
            waiting += others
        return found

    def _said(self, block: ir.Block, function: ir.FunctionDef | None) -> tuple[bool, list[ir.FunctionDef]]:
        """Whether the calls of a block may run a network themselves, and the functions of the file that they call."""
        calls = (node for node in walk(block, into_functions=True) if isinstance(node, ir.Call))
        said = [self._call_may_run(call, function) for call in calls]
        return any(each is True for each in said), [each for each in said if isinstance(each, ir.FunctionDef)]

    def _call_may_run(self, call: ir.Call, function: ir.FunctionDef | None) -> bool | ir.FunctionDef:
        """Whether a call may run a network; the function of the file that it calls, if it is one."""
        callee = call.callee
        if any(arg.keyword == "key" for arg in call.args):
            return True
        if isinstance(callee, ir.Name) and callee.id == "next" and function is not None:
            return not _is_of_data(call, function)
        if isinstance(callee, ir.Name):
            if function is not None and callee.id in function.locals:
                return True
            if callee.id in self._functions:
                return self._functions[callee.id]
            return (
                callee.id not in _BUILT_IN and not callee.id.lstrip("_")[:1].isupper()
            )  # a class: to make is not to run
        if not isinstance(callee, ir.Attribute) or callee.attr in _CALLING:
            return True
        if callee.attr in _OF_DATA:
            return False
        parts = (dotted(callee) or "").split(".")
        if parts[0] in _LIBRARIES:
            return False
        methods = self._methods.get(id(function)) if function is not None else None
        this = function.params[0].name if methods and function is not None and function.params else None
        if methods and len(parts) == 2 and parts[0] == this and parts[1] in methods:
            return methods[parts[1]]
        return True


def _is_of_data(call: ir.Call, function: ir.FunctionDef) -> bool:
    """``next(sizes)`` behind ``sizes = iter(given)``."""
    name = call.args[0].value if call.args else None
    if not isinstance(name, ir.Name) or name.id not in function.locals:
        return False
    assigns = (node for node in walk(function.body, into_functions=False) if isinstance(node, ir.Assign))
    given = [node.value for node in assigns for target in node.targets if name.id in target_names(target)]
    return bool(given) and all(
        isinstance(value, ir.Call)
        and dotted(value.callee) == "iter"
        and len(value.args) == 1
        and isinstance(value.args[0].value, (ir.Name, ir.Attribute))
        for value in given
    )
