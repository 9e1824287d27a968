"""Data sets of the Hugging Face hub: which split it is, through the methods that change its columns and rows."""

from __future__ import annotations

from analyzer.engine.calls import Calls
from analyzer.engine.machine import Args
from analyzer.engine.padding import PaddedColumn, copied_labels
from analyzer.engine.state import State
from analyzer.engine.trace import Site, start
from analyzer.engine.values import Const, External, Func, Ref, Value, const, truth
from analyzer.syntax import ir

KIND = "HubData"
OFFICIAL = "datasets.load_dataset"
OWN_FILES = "datasets.load_dataset of files"
SHUFFLED = ", shuffled"
_BUILDERS = frozenset(["arrow", "audiofolder", "csv", "generator", "imagefolder", "json", "pandas", "parquet", "text"])
"""datasets docs, "Load": builders of files that the program names, whose splits nobody has published."""
_SPLITS = ("train", "validation", "test")
_SAME = (
    "map", "filter", "select", "sort", "remove_columns", "select_columns", "rename_column", "rename_columns", "cast",
    "with_format", "with_transform", "cast_column", "class_encode_column", "flatten", "flatten_indices", "add_column",
)  # fmt: skip
_IN_PLACE = ("set_format", "set_transform", "reset_format")


def load_dataset(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``load_dataset(name, split=…)``: one split, or all of them by name. Nothing is known of a stream."""
    streaming, split, path = args.keywords.get("streaming"), args.keywords.get("split"), args.at(0, "path")
    if args.has_more or (streaming is not None and truth(streaming) is not False):
        return machine.call_unseen(External(OFFICIAL), args, at, state, f"`{OFFICIAL}` was not read")
    is_own = "data_files" in args.keywords or not isinstance(path, Const) or path.value in _BUILDERS
    name = OWN_FILES if is_own else OFFICIAL
    whole = _made(machine, name, "", split, at)
    for each in _SPLITS if split is None else ():
        state.set((whole.obj, f"[{each!r}]"), _made(machine, name, each, const(each), at))
    return whole


def _made(machine: Calls, name: str, key: str, split: Value | None, at: int) -> Ref:
    given = (("split", split),) if split is not None else ()
    return machine.create(("hub", key), at, KIND, "`load_dataset` is called here", name=name, arguments=given)


def _same(machine: Calls, receiver: Ref, args: Args, at: int, state: State) -> Value:
    """Other columns or rows of the same split, in the same order."""
    return receiver


def _in_place(machine: Calls, receiver: Ref, args: Args, at: int, state: State) -> Value:
    return const(None)


def _shuffled(machine: Calls, receiver: Ref, args: Args, at: int, state: State) -> Value:
    """``dataset.shuffle(seed)``: one order, drawn once; of every split where it has several."""
    obj = machine.obj(receiver)
    name = obj.name.removesuffix(SHUFFLED) + SHUFFLED
    mixed = machine.create(
        ("hub", "shuffled"), at, KIND, "`shuffle` is called here", name=name, arguments=obj.arguments
    )
    for key, value in state.fields(receiver.obj):
        for case in value.cases:
            if isinstance(case, Ref) and machine.obj(case).kind == KIND and case != receiver:
                state.set((mixed.obj, key), _shuffled(machine, case, args, at, state))
    return mixed


def mapped(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``dataset.map(tokenize)``: padded texts that are copied into the labels."""
    function = args.at(0, "function")
    for case in function.cases if function is not None else ():
        body = case.node.body if isinstance(case, Func) and isinstance(case.node, ir.FunctionDef) else ()
        found = copied_labels(body)
        if found is not None and isinstance(case, Func):
            padded, copied = (Site(case.path, node.at) for node in found)
            trace = start(copied, "the labels are copied here")
            machine.emit(PaddedColumn, at, trace, padded=padded)


FUNCTIONS = {"datasets.load_dataset": load_dataset, "datasets.load.load_dataset": load_dataset}
METHODS = {
    **{(KIND, name): _same for name in _SAME},
    **{(KIND, name): _in_place for name in _IN_PLACE},
    (KIND, "shuffle"): _shuffled,
}
METHOD_OBSERVERS = {"map": mapped}
