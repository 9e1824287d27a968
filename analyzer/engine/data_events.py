"""Events of the data side of a training program: loaders, sharding, seeds, checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from analyzer.engine.events import Event
from analyzer.engine.trace import Site
from analyzer.engine.values import ObjectId, Tensor, Unknown, Value
from analyzer.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderMade(Event):
    """A `torch.utils.data.DataLoader`. `given` are its arguments by name; `has_more`: others were unpacked from what
    the text does not show."""

    loader: ObjectId
    given: tuple[tuple[str, Value], ...]
    has_more: bool
    samplers: frozenset[ObjectId]
    """The sampler, the batch sampler and the objects these hold."""
    nodes: tuple[tuple[str, int], ...] = ()
    """The nodes of the arguments that are written out, by name, in order."""
    constant_seed: Site | None = None
    """Where `worker_init_fn` seeds every worker alike."""
    generators: tuple[tuple[str, ObjectId, ObjectId], ...] = ()
    """Generators of random numbers that the dataset or what it holds has: by attribute, with who has it."""

    def argument(self, name: str) -> Value | None:
        """An argument, or None where it is left out."""
        return next((value for known, value in self.given if known == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderIterated(Event):
    """A loop starts to draw from loaders (and perhaps from other objects). The loop itself is not among `loops`."""

    loaders: frozenset[ObjectId]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSet(Event):
    """``set_epoch`` is called on objects; on none: on something we could not tell."""

    objects: frozenset[ObjectId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded(Event):
    """A framework takes loaders over, or data is split by rank: each process gets a part of its own. No objects:
    of data we could not tell. `by`: the kind of object that takes them over."""

    objects: frozenset[ObjectId] = frozenset()
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted(Event):
    """``trainer.fit(model, loader, other)``: a framework trains a model on loaders, and validates it on others."""

    loaders: frozenset[ObjectId]
    validates: frozenset[ObjectId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Event):
    """``accelerator.prepare(model, optimizer)`` of a model with its optimizer and no loader among them, or
    ``fabric.setup(model)``. `is_several`: the text says that there is more than one process."""

    by: str = "Accelerate"
    is_several: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributed(Event):
    """The program runs in several processes: a process group is joined, or a model is wrapped for it. `is_alone`: it is
    written down that the group has one process."""

    how: Literal["group", "replicated", "sharded", "engine", "averaged"]
    is_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective(Event):
    """Ranks put their numbers together: a sum over all of them, or a list (`gather`). `value` is what each puts in."""

    how: Literal["sum", "mean", "gather"]
    value: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Event):
    """``self.log(name, value)`` of a LightningModule. `is_merged`: over all ranks, or by the object that is logged."""

    is_merged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched(Event):
    """A trainer is made that runs one process for each of several devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded(Event):
    """Generators of random numbers are seeded. `is_constant`: with a value that is the same in every process."""

    streams: frozenset[str]
    is_constant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(Event):
    """A number is drawn from global generators."""

    streams: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Event):
    """``torch.load`` of a file. `device` is what ``map_location`` is given, None where it is left out; `file_at` the
    node of the file's name."""

    device: Value | None
    has_more: bool
    file_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Event):
    """What ``torch.load`` read is put into a module or an optimizer, or is used as one. `read`: by which calls; `into`:
    where it goes, as far as that is known."""

    read: frozenset[Site]
    into: ObjectId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChosen(Event):
    """The program decides at run time which device it uses. `is_conditional`: only if its guards ask for a device;
    `is_callers`: the batches go to a device that an unseen caller gives."""

    is_conditional: bool = False
    is_callers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsed(Event):
    """``.cuda()`` of a module or a tensor, or CUDA tensors as the default: without a GPU the program ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(Event):
    """A file is written: by which function, and the node of the file's name."""

    callee: str
    file_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsKept(Event):
    """Weights are kept: a framework writes them, on one process, or they are copied."""


@dataclass(frozen=True, slots=True)
class ReadAt:
    """The mark (in `via`) of a value that came out of the ``torch.load`` at a site."""

    site: Site


def reads_in(cases: Iterable[Value]) -> frozenset[Site]:
    """The calls of ``torch.load`` that values came out of."""
    tags = (tag for case in cases if isinstance(case, (Tensor, Unknown)) for tag in case.via)
    return frozenset(tag.site for tag in tags if isinstance(tag, ReadAt))
