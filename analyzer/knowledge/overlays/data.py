"""Loaders, samplers and who shards them: what happens is noted, what the calls give is left to the tables."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engine.calls import Calls
from analyzer.engine.data_events import (
    Distributed,
    EpochSet,
    Fitted,
    LoaderIterated,
    LoaderMade,
    Prepared,
    Seeded,
    Sharded,
)
from analyzer.engine.events import Escape
from analyzer.engine.machine import Args
from analyzer.engine.state import State
from analyzer.engine.trace import Site, start
from analyzer.engine.values import (
    Const,
    External,
    Func,
    ObjectId,
    Ref,
    Scalar,
    Stream,
    Tensor,
    Tuple,
    Value,
    const,
    union,
)
from analyzer.knowledge.overlays.collate import COLLATED, batch_of
from analyzer.knowledge.overlays.wrapping import wrapped
from analyzer.records import replace
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, target_names, walk

LOADER_PARAMS = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn",
)  # fmt: skip
"""torch docs, torch.utils.data.DataLoader: the positional parameters in order; the others are keyword-only."""


PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
"""What gives parts of the dataset that is their first argument."""


def named(args: Args, params: tuple[str, ...]) -> tuple[tuple[str, Value], ...]:
    """Arguments by the names of their parameters."""
    return (*zip(params, args.positional, strict=False), *args.keywords.items())


def loader_made(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``DataLoader(…)``: the event, and the attributes that can be read back (``loader.sampler``)."""
    if not isinstance(result, Ref):
        return
    _note_loader(machine, args, LOADER_PARAMS, at, state, result)


def graph_loader_made(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``torch_geometric.loader.DataLoader(…)``."""
    if isinstance(result, Ref):
        _note_loader(machine, args, LOADER_PARAMS[:3], at, state, result)


def _note_loader(machine: Calls, args: Args, params: tuple[str, ...], at: int, state: State, result: Ref) -> None:
    given = named(args, params)
    for name, value in given:
        if name in {"dataset", "sampler", "batch_sampler", "batch_size"}:
            state.set((result.obj, name), value)
    order = [value for name, value in given if name in {"sampler", "batch_sampler"}]
    collated = batch_of(machine, dict(given).get("collate_fn"), at, state)
    if collated is not None:
        whole = collated if isinstance(collated, Tensor) else None
        items = tuple(_as_batch(item, result.obj) for item in collated.items) if isinstance(collated, Tuple) else ()
        batch = _as_batch(whole, result.obj) if whole is not None else Tuple(items, trace=result.trace)
        state.set((result.obj, COLLATED), batch)
    nodes = [(name, node.at) for name, node in zip(params, args.nodes, strict=False) if node is not None]
    nodes += [(name, node.at) for name, node in args.keyword_nodes.items()]
    machine.emit(
        LoaderMade, at, result.trace, loader=result.obj, given=given, nodes=tuple(nodes),
        has_more=args.has_more and not (args.unpacked and all(_is_read(machine, v, state) for _, v in args.unpacked)),
        samplers=frozenset().union(*(objects_in(machine, value, state) for value in order)),
        generators=_generators(machine, dict(given).get("dataset"), state),
        constant_seed=_constant_seed(machine, dict(given).get("worker_init_fn"), at, state),
    )  # fmt: skip


def _is_read(machine: Calls, value: Value, state: State) -> bool:
    """Whether the text shows every key of a dict, and no code that was not read was given it."""
    objects = {case.obj for case in value.cases if isinstance(case, Ref)}
    given = (event for event in machine.events if isinstance(event, Escape) and event.how == "call")
    return machine.is_whole(value, state) and not any(objects & event.objects for event in given)


def _generators(
    machine: Calls, dataset: Value | None, state: State, depth: int = 1
) -> tuple[tuple[str, ObjectId, ObjectId], ...]:
    """The generators of random numbers among the attributes of a dataset of the repository, and of its transforms; a
    part of it draws with them too."""
    found: list[tuple[str, ObjectId, ObjectId]] = []
    for case in dataset.cases if dataset is not None else ():
        if isinstance(case, Ref) and machine.obj(case).name in PARTS:
            for _, whole in machine.obj(case).arguments[:1]:
                found += _generators(machine, whole, state, depth)
        elif isinstance(case, Ref) and machine.obj(case).cls is not None:
            for name, value in state.fields(case.obj):
                for held in value.cases:
                    if isinstance(held, Ref) and machine.obj(held).kind == "Generator":
                        found.append((name, held.obj, case.obj))
                    elif depth:
                        found += _generators(machine, held, state, depth - 1)
    return tuple(found)


def random_split(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``random_split(dataset, lengths)``: parts of the dataset, drawn at random."""
    ref = machine.create(
        "row", at, "Data", "`random_split` is called here", name="torch.utils.data.random_split",
        arguments=(("0", args.at(0, "dataset") or Scalar()),),
    )  # fmt: skip
    return Stream(ref, trace=ref.trace)


def _as_batch(item: Value, loader: ObjectId) -> Value:
    """A part of a batch, which comes out of a loader."""
    return union(
        replace(case, via=case.via | {loader}, is_batch=True, birth=None)
        if isinstance(case, Tensor)
        else Tensor(via=frozenset({loader}), is_opaque=True, is_batch=True)
        for case in item.cases
    )


def _constant_seed(machine: Calls, init: Value | None, at: int, state: State) -> Site | None:
    """The place where the function that every worker runs first seeds all of them alike."""
    for case in init.cases if init is not None else ():
        if isinstance(case, Func):
            mark = len(machine.events)
            machine.run_function(case, Args((Scalar("worker"),)), at, state.fork())
            seeds = [event for event in machine.events[mark:] if isinstance(event, Seeded)]
            del machine.events[mark:]  # the workers' doing, not the program's
            if seeds and (all(event.is_constant for event in seeds) or _ignores_worker(case)):
                return seeds[0].site
    return None


_SECONDS = frozenset({"int", "time.time", "time"})
"""Calls of ``int(time.time())``: ``time`` is imported from the module of that name."""


def _ignores_worker(init: Func) -> bool:
    """Whether every seed in a function is a plain name or number that does not come from its parameter, or the time in
    seconds: workers start in the same one."""
    node = init.node
    body = node.body if isinstance(node, ir.FunctionDef) else (node.body,)
    parts = list(walk(body, into_functions=False))
    own = {param.name for param in node.params}
    own |= {name for each in parts if isinstance(each, ir.Assign) for to in each.targets for name in target_names(to)}
    seeds = [each for each in parts if isinstance(each, ir.Call) and (dotted(each.callee) or "").endswith("seed")]
    given = [part for seed in seeds for part in walk(seed.args, into_functions=False)]
    return bool(given) and not any(
        (isinstance(part, ir.Call) and dotted(part.callee) not in _SECONDS)
        or (isinstance(part, ir.Name) and part.id in own)
        for part in given
    )


def objects_in(machine: Calls, value: Value, state: State, depth: int = 3) -> frozenset[ObjectId]:
    """The objects of a value and those their attributes hold, a few steps deep."""
    found: set[ObjectId] = set()
    todo = [(case.obj, depth) for case in machine.deep(value, state) if isinstance(case, Ref)]
    while todo:
        obj, left = todo.pop()
        if obj in found or left < 0:
            continue
        found.add(obj)
        held = [*(value for _, value in state.fields(obj)), *(value for _, value in machine.objects[obj].arguments)]
        todo += [(case.obj, left - 1) for each in held for case in each.cases if isinstance(case, Ref)]
    return frozenset(found)


def epoch_set(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``sampler.set_epoch(epoch)``, on a loader or a dataset as well."""
    if isinstance(receiver, (Const, External)):
        return
    objects = objects_in(machine, receiver, state) if isinstance(receiver, Ref) else frozenset()
    machine.emit(EpochSet, at, None, objects=objects)


def handed_over(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``accelerator.prepare(loader)``, ``fabric.setup_dataloaders(loader)``, ``trainer.fit(model, loader)``."""
    objects = [objects_in(machine, arg, state, 1) for arg in args.all()]
    trace = start(machine.site(at), "handed over for several processes here")
    machine.emit(Sharded, at, trace, objects=frozenset().union(*objects), by=machine.receiver_kind(receiver))
    kinds = {machine.objects[obj].kind for each in objects for obj in each}
    if machine.receiver_kind(receiver) == "Accelerator" and {"Module", "Optimizer"} <= kinds and "Loader" not in kinds:
        machine.emit(Prepared, at, start(machine.site(at), "the model is prepared for several processes"))


def set_up(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``fabric.setup(model, optimizer)``: loaders have a method of their own."""
    if machine.receiver_kind(receiver) == "Accelerator" and any(machine.is_module(arg) for arg in args.positional[:1]):
        trace = start(machine.site(at), "the model is set up for several processes")
        machine.emit(Prepared, at, trace, by="Fabric", is_several=_is_several(machine, receiver))


def _is_several(machine: Calls, fabric: Value) -> bool:
    """``Fabric(devices=4)``: the text says how many processes there are."""
    held = [machine.obj(case).arguments for case in fabric.cases if isinstance(case, Ref)]
    counts = [value for each in held for name, value in each if name in {"devices", "num_nodes"}]
    return any(isinstance(each, Const) and isinstance(each.value, int) and each.value > 1 for each in counts)


def fitted(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``trainer.fit(model, train_loader)`` of Lightning."""
    given_kinds = {machine.objects[obj].kind for arg in args.all() for obj in objects_in(machine, arg, state, 0)}
    if isinstance(receiver, (Scalar, Const)) and given_kinds.isdisjoint({"Module", "Loader", "instance"}):
        return  # ``StandardScaler().fit(values)``
    handed_over(machine, receiver, args, at, state, result)
    given = args.at(1, "train_dataloaders") or args.keywords.get("train_dataloader")
    others = args.at(2, "val_dataloaders") or args.keywords.get("val_dataloader")
    model = args.at(0, "model")
    loaders = [case.obj for case in given.cases if isinstance(case, Ref)] if given is not None else []
    if loaders and all(machine.objects[obj].kind == "Loader" for obj in loaders) and model and machine.is_module(model):
        validates = frozenset(case.obj for case in others.cases if isinstance(case, Ref)) if others else frozenset()
        trace = start(machine.site(at), "a framework trains on it")
        machine.emit(Fitted, at, trace, loaders=frozenset(loaders), validates=validates)


def split_by_rank(machine: Calls, receiver: Value, args: Args, at: int, state: State, result: Value) -> None:
    """``dataset.shard(num_shards, index)``, ``wds.split_by_node``."""
    if args.positional or args.keywords:
        machine.emit(Sharded, at, start(machine.site(at), _SPLIT), objects=frozenset())


def split_function(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """A function that gives each process its part."""
    machine.emit(Sharded, at, start(machine.site(at), _SPLIT), objects=frozenset())


def _wrapped(how: str) -> Callable[[Calls, Args, int, State, Value], None]:
    def note(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
        words = {
            "group": "a process group is joined",
            "engine": "a distributed engine is made",
            "averaged": "the optimizer averages the gradients of several processes",
        }
        trace = start(machine.site(at), words.get(how, "the model is wrapped for training in several processes"))
        size = args.at(3, "world_size") if how == "group" else None
        is_alone = isinstance(size, Const) and size.value == 1
        machine.emit(Distributed, at, trace, how=how, is_alone=is_alone)
        if how in {"replicated", "sharded"}:
            wrapped(machine, args, at, state, result)

    return note


def iterator_made(machine: Calls, args: Args, at: int, state: State, result: Value) -> None:
    """``iter(loader)`` starts to draw from it."""
    loaders = frozenset(case.obj for arg in args.positional[:1] for case in arg.cases if isinstance(case, Ref))
    if any(machine.objects[obj].kind == "Loader" for obj in loaders):
        machine.emit(LoaderIterated, at, start(machine.site(at), "the loader is drawn from anew here"), loaders=loaders)


def spawn(machine: Calls, args: Args, at: int, state: State) -> Value:
    """``torch.multiprocessing.spawn(fn, args, nprocs)`` runs ``fn(rank, *args)`` in every process."""
    function, rest = args.at(0, "fn"), args.at(1, "args")
    if function is not None:
        given: list[Value] = [Scalar("rank")]
        many = False
        for case in rest.cases if rest is not None else ():
            items = getattr(case, "items", None)
            given += items if items is not None else []
            many = items is None
        machine.call(function, Args(tuple(given), {}, has_more=many), at, state)
    return const(None)


_DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel",
        "apex.parallel.DistributedDataParallel")  # fmt: skip
_GRAPH_LOADER = ("torch_geometric.loader.DataLoader", "torch_geometric.loader.dataloader.DataLoader",
                 "torch_geometric.data.DataLoader")  # fmt: skip
_FSDP = ("torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard",
         "torch.distributed._composable.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard.fully_shard",
         "fairscale.nn.data_parallel.FullyShardedDataParallel")  # fmt: skip
_GROUP = ("torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group")
_SPLIT = "each process gets its part here"
_LOADER = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
FUNCTIONS = {
    "torch.utils.data.random_split": random_split,
    "torch.multiprocessing.spawn": spawn,
    "torch.multiprocessing.spawn.spawn": spawn,
}
OBSERVERS = {
    **dict.fromkeys(_LOADER, loader_made),
    **dict.fromkeys(_GRAPH_LOADER, graph_loader_made),
    **dict.fromkeys(_DDP, _wrapped("replicated")),
    **dict.fromkeys(_FSDP, _wrapped("sharded")),
    **dict.fromkeys(_GROUP, _wrapped("group")),
    "deepspeed.initialize": _wrapped("engine"),
    "horovod.torch.DistributedOptimizer": _wrapped("averaged"),
    "builtins.iter": iterator_made,
    "datasets.distributed.split_dataset_by_node": split_function,
    "webdataset.split_by_node": split_function,
}
METHOD_OBSERVERS = {
    "set_epoch": epoch_set,
    "shard": split_by_rank,
    **dict.fromkeys(
        ("prepare", "prepare_data_loader", "setup_dataloaders", "process_dataloader", "auto_dataloader"),
        handed_over,
    ),
    "setup": set_up,
    "setup_module": set_up,
    "fit": fitted,
}
