"""Whether a loader gives every rank the whole dataset: for training a mistake, for evaluation only waste."""

from __future__ import annotations

import re

from analyzer.engine.data_events import LoaderMade
from analyzer.engine.loading import (
    Loading,
    asks_for_rank,
    batched,
    dataset_kind,
    guarded_by_rank,
    is_absent,
    named_by_rank,
    picks_by_rank,
    speaks_of_rank,
)
from analyzer.engine.machine import Obj
from analyzer.engine.program import Program
from analyzer.engine.trace import Site
from analyzer.engine.values import Ref, Tensor, Value
from analyzer.engine.words import spelled, words
from analyzer.syntax import ir
from analyzer.syntax.scope import assigned_names, last_name, target_names, walk

_WHOLE = tuple(
    f"torch.utils.data.{module}{name}"
    for module in ("", "sampler.")
    for name in ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
)

_SEVERAL = re.compile(r"[Dd]istributed\w*Sampler")
_PREPARES = frozenset({"prepare", "prepare_data_loader", "setup_dataloaders"})
_PART = tuple(f"torch.utils.data.{module}SubsetRandomSampler" for module in ("", "sampler."))


def is_whole(program: Program, known: Loading, made: LoaderMade) -> bool:
    """Whether nothing on the loader can split the data."""
    if made.has_more or not _knows_no_rank(program, made.argument("sampler"), made):
        return False
    if _is_offered_one(program, made):
        return False
    if not is_absent(made.argument("batch_sampler")) and not _batches_of_all(program, made):
        return False
    if dataset_kind(program, made.argument("dataset")) == "iterable":
        return False
    if known.is_handed_over(made) or guarded_by_rank(program, made.guards) or _is_prepared(program, made):
        return False
    return not speaks_of_rank(program, made.argument("dataset")) and not named_by_rank(program, made)


def names_of(program: Program, made: LoaderMade) -> set[str]:
    """What the function that makes a loader calls it."""
    function, unit = program.function_around(made.site), program.unit(made.site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    assigned = (node for node in walk(body, False) if isinstance(node, ir.Assign))
    mine = (node for node in assigned if node.value is not None and node.value.at == made.site.at)
    return {name for node in mine for name in assigned_names(node)}


def _is_prepared(program: Program, made: LoaderMade) -> bool:
    """Whether the function that makes the loader gives it to what is called as Accelerate and Fabric are, whatever
    object that is: ``model, opt, loader = accelerator.prepare(model, opt, loader)``."""
    function, unit = program.function_around(made.site), program.unit(made.site.path)
    body = function.body if function is not None else unit.body if unit is not None else ()
    names, nodes = names_of(program, made), walk(body, False)
    calls = (node for node in nodes if isinstance(node, ir.Call) and last_name(node.callee) in _PREPARES)
    return any(isinstance(arg.value, ir.Name) and arg.value.id in names for call in calls for arg in call.args)


def _is_offered_one(program: Program, made: LoaderMade) -> bool:
    """Whether the text gives the loader a sampler for several processes under a condition (``DistributedSampler(data)
    if ddp else None``), whatever it was where it was interpreted: a default is not what each caller says."""
    function, path = program.function_around(made.site), made.site.path
    for name, at in made.nodes:
        node = words(program).node(Site(path, at)) if name in {"sampler", "batch_sampler"} else None
        given = [node] if isinstance(node, ir.Expr) else []
        if isinstance(node, ir.Name) and function is not None:
            assigned = (each for each in walk(function.body, False) if isinstance(each, ir.Assign))
            given += [each.value for each in assigned if each.value is not None and node.id in assigned_names(each)]
        if any(_SEVERAL.search(spelled(each)) for each in given):
            return True
    return False


def _batches_of_all(program: Program, made: LoaderMade) -> bool:
    """``BatchSampler(RandomSampler(dataset), 32, True)``: batches of a sampler that knows no rank."""
    given = made.argument("batch_sampler")
    refs = [case for case in given.cases if isinstance(case, Ref)] if given is not None else []
    samplers = [batched(program, ref) for ref in refs]
    return bool(samplers) and all(
        each is not None and not is_absent(each) and _knows_no_rank(program, each, made) for each in samplers
    )


def is_made_up(program: Program, dataset: Value | None) -> bool:
    """Whether the data are random numbers: every rank may draw its own, in a measurement."""
    refs = [case for case in dataset.cases if isinstance(case, Ref)] if dataset is not None else []
    held = [value for ref in refs for key, value in program.objects[ref.obj].arguments if key.isdigit()]
    return any(isinstance(case, Tensor) and case.is_synthetic for value in held for case in value.cases)


def is_sequential(program: Program, sampler: Value | None) -> bool:
    """Whether a sampler draws in order, as evaluation does."""
    refs = [case for case in sampler.cases if isinstance(case, Ref)] if sampler is not None else []
    return bool(refs) and all(program.objects[ref.obj].name.endswith(".SequentialSampler") for ref in refs)


def _may_get_one(program: Program, made: LoaderMade) -> bool:
    """Whether the call names a sampler that was None where it was read, and may be one in another run."""
    said = words(program).of(made.site).split()
    named = said[said.index("sampler=") + 1 :][:1] if "sampler=" in said else ["None"]
    if named == ["None"] or _is_left_out(program, made, named[0]):
        return False
    return not _is_never_one(program, made.site, named[0])


def _is_left_out(program: Program, made: LoaderMade, name: str) -> bool:
    """Whether the call that led to the function around a loader gives it no sampler: its parameter is None by default,
    and this run has none."""
    function = program.function_around(made.site)
    names = [param.name for param in function.params] if function is not None else []
    led = next((site for site in reversed(made.calls) if program.function_around(site) is not function), None)
    call = words(program).node(led) if led is not None and led not in program.entries and name in names else None
    if not isinstance(call, ir.Call) or any(arg.star for arg in call.args):
        return False
    is_method = names[:1] in (["self"], ["cls"])
    plain = sum(1 for arg in call.args if arg.keyword is None)
    return plain <= names.index(name) - is_method and name not in {arg.keyword for arg in call.args}


def _is_never_one(program: Program, site: Site, name: str) -> bool:
    """Whether all that the function gives a variable of its own is None: ``sampler, shuffle = None, True``."""
    function = program.function_around(site)
    if function is None or name in {param.name for param in function.params}:
        return False
    given: list[ir.Expr | None] = []
    for node in walk(function.body, False):
        if isinstance(node, ir.Assign):
            for target in node.targets:
                if isinstance(target, ir.Name) and target.id == name:
                    given.append(node.value)
                elif isinstance(target, ir.Display) and name in target_names(target):
                    items = node.value.items if isinstance(node.value, ir.Display) else ()
                    pairs = zip(target.items, items, strict=False)
                    given += [value for each, value in pairs if isinstance(each, ir.Name) and each.id == name] or [None]
    return bool(given) and all(isinstance(each, ir.Constant) and each.value is None for each in given)


def _is_part_of_range(program: Program, sampler: Obj) -> bool:
    """``SubsetRandomSampler(indices[:split])`` of ``list(range(n))``: the same numbers on every rank."""
    given = dict(sampler.arguments)
    indices = given.get("indices", given.get("0"))
    if not sampler.name.startswith(_PART) or indices is None or picks_by_rank(program):
        return False
    made = [program.objects[case.obj].trace.site if isinstance(case, Ref) else None for case in indices.cases]
    is_range = all(site is not None and program.sources.text(site).startswith("list(range(") for site in made)
    return is_range and not asks_for_rank(program, sampler.trace.site)


def _knows_no_rank(program: Program, sampler: Value | None, made: LoaderMade) -> bool:
    """Whether there is no sampler, or one of torch's that draws from the whole dataset on every rank."""
    if sampler is None or is_absent(sampler):
        return not _may_get_one(program, made)
    for case in sampler.cases:
        obj = program.objects[case.obj] if isinstance(case, Ref) else None
        if obj is None or not (obj.name.startswith(_WHOLE) or _is_part_of_range(program, obj)):
            return False
        if obj.name.rpartition(".")[2] not in program.sources.text(obj.trace.site):
            return False  # the class came through a variable, chosen for this run
    return True
