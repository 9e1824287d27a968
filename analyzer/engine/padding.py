"""Padding: which tensors hold it, until something masks it.

The mark lies in `via`. It is put on by ``pad_sequence``, goes on through what keeps the numbers, and ends where numbers
are chosen by a mask, replaced, or computed anew.
"""

from __future__ import annotations

from analyzer.engine.events import Event
from analyzer.engine.machine import Args, Machine
from analyzer.engine.trace import Site, start
from analyzer.engine.values import Const, Tensor, Unknown, Value, union
from analyzer.records import dataclass, replace
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

IGNORED = -100
"""What `torch.nn.CrossEntropyLoss` ignores unless told otherwise."""
_PADS = frozenset(["torch.nn.utils.rnn.pad_sequence"])
_MASKS = frozenset(["masked_select", "masked_fill", "masked_fill_", "where", "pack_padded_sequence", "unpad_sequence"])


@dataclass(frozen=True, slots=True)
class Padded:
    """The mark of a tensor that was padded at a site."""

    site: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedLabels(Event):
    """A model is given labels that hold padding, and computes the loss over all of them. `padded`: where it came in."""

    padded: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedColumn(Event):
    """A function that a data set is mapped through copies padded texts into its labels. `padded`: where it fills up."""

    padded: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedItem(Event):
    """A sample, or a batch, is put together with labels that hold padding. `padded`: where it came in."""

    padded: Site


_FILLING = (True, "longest", "max_length")


def copied_labels(body: ir.Block) -> tuple[ir.Call, ir.Assign] | None:
    """``out = tokenizer(…, padding="max_length")`` and ``out["labels"] = out["input_ids"].copy()`` in a function that
    says nothing of what to ignore."""
    filled: ir.Call | None = None
    copied: ir.Assign | None = None
    for node in walk(body, into_functions=True):
        if isinstance(node, ir.Call) and any(_fills_up(arg) for arg in node.args):
            filled = node
        elif isinstance(node, ir.Conditional) or (isinstance(node, ir.Constant) and node.value in (IGNORED, -IGNORED)):
            return None
        elif (
            isinstance(node, ir.Assign) and node.value is not None and any(_is_key(to, "labels") for to in node.targets)
        ):
            copied = (
                node if any(_is_key(part, "input_ids") for part in walk((node.value,), into_functions=True)) else None
            )
    return (filled, copied) if filled is not None and copied is not None else None


def _fills_up(arg: ir.Arg) -> bool:
    return arg.keyword == "padding" and isinstance(arg.value, ir.Constant) and arg.value.value in _FILLING


def _is_key(node: object, key: str) -> bool:
    return isinstance(node, ir.Subscript) and isinstance(node.index, ir.Constant) and node.index.value == key


def after_call(name: str, args: Args, result: Value, site: Site) -> Value:
    """The result of a library call with its padding."""
    if name in _PADS:
        given = args.at(2, "padding_value")
        is_ignored = given is not None and not (isinstance(given, Const) and given.value != IGNORED)
        return unpadded(result) if is_ignored else padded(result, Padded(site))
    return unpadded(result) if name.rsplit(".", 1)[-1] in _MASKS else result


def of_tokenizer(name: str, args: Args, result: Value, site: Site) -> Value:
    """What a tokenizer of transformers gives: the shorter texts are filled up where `padding` asks for it."""
    is_known = name.startswith("transformers.") and "Tokenizer" in name
    asked = args.keywords.get("padding") if is_known else None
    return _filled(asked, result, site)


def of_unread(args: Args, result: Value, site: Site) -> Value:
    """The same of a callee that was not read: no other takes both `padding` and `return_tensors`."""
    return _filled(args.keywords.get("padding") if "return_tensors" in args.keywords else None, result, site)


def _filled(asked: Value | None, result: Value, site: Site) -> Value:
    if asked is None or not all(isinstance(case, Const) and case.value in _FILLING for case in asked.cases):
        return result
    return Tensor(via=frozenset({Padded(site)}), is_opaque=True, trace=start(site, "texts are filled up here"))


def note_labels(machine: Machine, name: str, args: Args, at: int) -> None:
    """A model of transformers that computes its loss itself gets padded labels."""
    if name.startswith("transformers.") and (labels := args.keywords.get("labels")) is not None:
        mark = padding_of(labels)
        if mark is not None:
            machine.emit(PaddedLabels, at, None, padded=mark.site)


def note_item(machine: Machine, key: Const, value: Value, at: int) -> None:
    """``{"input_ids": …, "labels": ids}``."""
    if key.value == "labels" and (mark := padding_of(value)) is not None:
        machine.emit(PaddedItem, at, start(machine.site(at), "the labels of a sample"), padded=mark.site)


def padded(value: Value, mark: Padded) -> Value:
    """The value with a mark."""
    return union(
        replace(case, via=case.via | {mark}) if isinstance(case, (Tensor, Unknown)) else case for case in value.cases
    )


def unpadded(value: Value) -> Value:
    """The value without any."""
    return union(
        replace(case, via=without(case.via)) if isinstance(case, (Tensor, Unknown)) else case for case in value.cases
    )


def without(tags: frozenset[object]) -> frozenset[object]:
    """The tags that are no padding."""
    return frozenset(tag for tag in tags if not isinstance(tag, Padded)) if marks_in(tags) else tags


def marks_in(tags: frozenset[object]) -> frozenset[Padded]:
    """The padding among some tags."""
    return frozenset(tag for tag in tags if isinstance(tag, Padded))


def padding_of(value: Value | None) -> Padded | None:
    """The padding that a tensor surely holds."""
    cases = value.cases if value is not None else ()
    found = [marks_in(case.via) if isinstance(case, Tensor) else frozenset() for case in cases]
    return min(found[0], key=lambda mark: mark.site) if found and all(found) else None
