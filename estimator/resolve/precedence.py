"""One launch -> the run configs it means: who overrides whom.

Strongest first: arguments of the script (the analyzer applies them), what the script writes, options of the launcher,
config files, defaults of the libraries. Topology comes from the launcher; hardware from the launch file.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import Any

from analyzer import api as analyzer
from analyzer.api import Files
from analyzer.errors import InputError
from estimator import hardware
from estimator.launch.base import OPEN_ARGUMENTS, Arg, LaunchConfig, not_known
from estimator.launch.places import find_named
from estimator.launch.topology import visible_devices
from estimator.resolve import arguments
from estimator.resolve.closure import script_path
from estimator.resolve.configfiles import deepspeed_facts
from estimator.resolve.frameworks import Facts
from estimator.resolve.recipes import NOT_COUNTED
from estimator.resolve.script import NOTHING_SAID, configs_from, script_facts
from estimator.runconfig import RunConfig
from estimator.sourced import Origin, Sourced, Unknown

RULE = "PF501"  # ours: the analyzer has no rule of this code
_CONFIG_OPTIONS = ("deepspeed", "deepspeed_config")


def resolve(files: Files, launch: LaunchConfig, said: RunConfig = NOTHING_SAID) -> tuple[RunConfig, ...]:
    """The run configs of a launch; none where its script trains and loads nothing. Unknown fields say why. `said` as
    `estimator.resolve.script.run_configs` has it."""
    if launch.recipe is not None:
        recipe: dict[str, Any] = dict(launch.recipe)
        return (_completed(replace(RunConfig(), **recipe), launch, Facts(), _unseen_file(files, launch)),)
    script = script_path(files, launch.command, launch.path)
    if script is None or files.read(script) is None:  # listed without contents: a large tree is not fetched whole
        return _without_script(files, launch, "")
    extra = {name: value for name, value in launch.overrides.items() if name == "compute_dtype"}
    facts = script_facts(files, script, launch.command.argv, extra, said)
    if not facts.marks and (reason := unreadable(files, script)):
        return _without_script(files, launch, reason)
    engine = _deepspeed(files, launch, facts)
    runs = (_unless_given(run, launch) for run in configs_from(facts, files))
    return tuple(_completed(run, launch, facts, engine) for run in runs)


def _unless_given(run: RunConfig, launch: LaunchConfig) -> RunConfig:
    """Beside arguments that nobody can see, only those that can be seen are certain."""
    hidden = next((word for word in launch.command.argv if word.text == OPEN_ARGUMENTS), None)
    if hidden is None:
        return run
    seen = {(word.path, word.line) for word in launch.command.words}
    changes: dict[str, Any] = {
        name: Sourced(Unknown(hidden.unknown, (value.value,)), value.origin)
        for name, value in run.words().items()
        if value.is_known and name != "task" and (value.origin.path, value.origin.line) not in seen
    }
    return replace(run, **changes)


def unreadable(files: Files, script: str) -> str:
    """Why the analyzer cannot read a script; empty where it can. No rule of that code runs there."""
    report = analyzer.analyze(files, [script], analyzer.Options(select=frozenset({RULE})))
    return next((f"{item.path}: {item.reason}" for item in report.skipped if item.path == script), "")


def _without_script(files: Files, launch: LaunchConfig, problem: str) -> tuple[RunConfig, ...]:
    """A command whose script is not in the tree, or cannot be read, still says what hardware it asks for. In a file
    of the tree a plain ``python`` that names no GPU says nothing; one that a person typed is asked about."""
    is_typed = launch.path not in files.paths()
    if not problem and launch.command.launcher == "python" and not launch.target.gpu.is_known and not is_typed:
        return ()
    name = launch.command.script
    kind = "module" if launch.command.is_module else "script"
    reason = problem or name.unknown or f"{kind} {name.text} is not in the repository{_similar(files, launch)}"
    hidden: Sourced[Any] = Sourced(Unknown(reason), name.origin())
    run = RunConfig(model=hidden, micro_batch=hidden, seq_len=hidden, precision=hidden, optimizer=hidden, method=hidden,
                    grad_accum=hidden, grad_checkpointing=hidden, sharding=hidden, offload=hidden)  # fmt: skip
    return (_completed(run, launch, Facts(), {}),)


def _similar(files: Files, launch: LaunchConfig) -> str:
    """A script whose name is the one that is missing, but for a slip."""
    name = launch.command.script.text.rsplit("/", 1)[-1]
    names = {path.rsplit("/", 1)[-1] for path in files.paths() if path.endswith(".py")}
    close = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75) if name.endswith(".py") else []
    return f"; there is {close[0]}" if close and close[0] != name else ""


def _deepspeed(files: Files, launch: LaunchConfig, facts: Facts) -> dict[str, Sourced[Any]]:
    command = launch.command
    given = dict(arguments.options(command.argv))
    named = [given[name] for name in _CONFIG_OPTIONS if name in given and given[name].text not in {"true", "True"}]
    option = command.options.get("--deepspeed-config-file")
    named += [option] if option is not None else []
    named += [
        Arg(item.value, item.origin.path, item.origin.line)
        for item in facts.candidates("deepspeed_config")
        if isinstance(item.value, str)
    ]
    for arg in named:
        found = deepspeed_facts(arg, files, command.cwd, launch.path)
        if found:
            return found
    built = next((item for item in facts.candidates("deepspeed_config") if not item.is_known), None)
    if not named and built is not None:
        return _unseen_engine(
            Arg("", built.origin.path, built.origin.line, "the script builds its DeepSpeed configuration")
        )
    if not named:
        return _unseen_file(files, launch)
    return _unseen_engine(named[0]) if named[0].text.lower() not in {"none", "false", ""} else {}


def _unseen_file(files: Files, launch: LaunchConfig) -> dict[str, Sourced[Any]]:
    """accelerate's file may ask for DeepSpeed, FSDP and a precision."""
    option = launch.command.options.get("--config-file")
    if launch.command.launcher != "accelerate" or option is None:
        return {}
    is_seen = find_named(files, option, launch.command.cwd, launch.path) is not None
    return {} if is_seen else _unseen_engine(option)


def _unseen_engine(named: Arg) -> dict[str, Sourced[Any]]:
    """What a DeepSpeed or accelerate file decides that is named and not in the tree."""
    reason = named.unknown or f"{named.text[:60]} is not in the repository, or cannot be read"
    origin = named.origin()
    hidden: Sourced[Any] = Sourced(Unknown(reason), origin)
    sharding: Sourced[Any] = Sourced(Unknown(reason, ("zero3", "zero2", "zero1")), origin)
    return {"sharding": sharding, "offload": hidden, "precision": hidden}


def _completed(run: RunConfig, launch: LaunchConfig, facts: Facts, engine: dict[str, Sourced[Any]]) -> RunConfig:
    fields: dict[str, Sourced[Any]] = dict(run.words())
    from_launcher = {name: value for name, value in launch.overrides.items() if name != "compute_dtype"}
    for name, value in {**from_launcher, **engine}.items():
        is_default = fields[name].is_known and fields[name].origin.text.startswith(("nothing ", "default of "))
        if name == "precision" or not fields[name].is_known or is_default:
            fields[name] = value
    fields["num_gpus"] = _gpus(run, launch, facts)
    fields["nodes"] = launch.processes.nodes if launch.processes.nodes.is_known else launch.target.nodes
    fields["gpu"] = _gpu(launch.target.gpu)
    if "sharding" not in engine or engine["sharding"].is_known:
        fields["sharding"] = _sharding(fields, launch, facts)
    if not fields["offload"].is_known and fields["sharding"].value in {"none", "ddp"}:
        fields["offload"] = Sourced("none", Origin(f"sharding {fields['sharding'].value}"))
    notes = tuple(
        ("not counted", note.removeprefix(NOT_COUNTED)) if note.startswith(NOT_COUNTED) else ("launch", note)
        for note in launch.notes
    )
    opaque = [word for word in launch.command.argv if word.unknown and word.text.startswith("$")]
    notes += tuple(("arguments", f"{word.text}: {word.unknown}") for word in opaque[:4])
    return replace(run, **fields, not_understood=(*run.not_understood, *notes))


def _may_start_more(given: Sourced[Any], launch: LaunchConfig) -> bool:
    """Whether the one process is a script that nobody has read, on a machine that may have more GPUs than one."""
    is_unread = not given.is_known and bool(given.origin.path) and launch.command.launcher == "python"
    return is_unread and launch.target.gpus_per_node.value != 1


def _gpus(run: RunConfig, launch: LaunchConfig, facts: Facts) -> Sourced[int]:
    """One for each process; all that it sees for a process that splits its batches over them, and what a trainer is
    told where it starts the processes itself."""
    is_one = launch.processes.per_node.value == 1 and launch.command.launcher == "python"
    if "starts_processes" in facts.marks and is_one:
        return _devices(facts, launch)
    if run.splits_batch.value is not True or launch.processes.per_node.value != 1:
        return launch.processes.per_node
    return visible_devices(launch.command.env) or launch.target.gpus_per_node


def _devices(facts: Facts, launch: LaunchConfig) -> Sourced[int]:
    """``devices=2``, ``[0, 1]``, ``"0,1"``; "auto" and -1 are all that there are."""
    given = facts.one("devices")
    value = given.value if given is not None else "auto"
    if given is not None and isinstance(value, Unknown):
        return not_known(value.reason, given.origin)
    if isinstance(value, str) and re.fullmatch(r"\d+(,\d+)*,?", value):
        value = tuple(value.strip(",").split(",")) if "," in value else int(value)
    if given is not None and isinstance(value, (int, tuple)) and value not in (-1, 0):
        return replace(given, value=value if isinstance(value, int) else len(value))
    return visible_devices(launch.command.env) or launch.target.gpus_per_node


def _gpu(gpu: Sourced[tuple[str, ...]]) -> Sourced[tuple[str, ...]]:
    """Names the hardware table knows; a site's own word is unknown until the configuration maps it."""
    if isinstance(gpu.value, Unknown):
        return gpu
    names: list[str] = []
    for name in gpu.value:
        slice_memory = re.fullmatch(r"\d+g\.(\d+)gb", name)
        name = f"{slice_memory[1]}GB" if slice_memory else name
        try:
            hardware.find(name)
        except InputError:
            return not_known(
                f"{name!r} is no GPU we know: map it in `targets` of the Preflight configuration", gpu.origin
            )
        names.append(name)
    return Sourced(tuple(names), gpu.origin)


def _sharding(fields: dict[str, Sourced[Any]], launch: LaunchConfig, facts: Facts) -> Sourced[Any]:
    given = fields["sharding"]
    per_node, nodes = fields["num_gpus"].value, fields["nodes"].value
    if given.is_known:
        return given
    splits: Sourced[Any] = fields["splits_batch"]
    if splits.value is True:
        return Sourced("none", splits.origin)
    is_alone = per_node == 1 and nodes == 1
    if is_alone and _may_start_more(given, launch):
        return given
    if is_alone:
        return Sourced("none", launch.processes.per_node.origin)
    is_several = isinstance(per_node, int) and isinstance(nodes, int)
    if launch.recipe is not None and is_several and given.value.plausible == ("none", "ddp"):
        return Sourced("ddp", replace(launch.processes.per_node.origin, text="several processes, nothing is sharded"))
    if "starts_processes" in facts.marks and not given.origin.path:
        return Sourced("ddp", replace(facts.marks["starts_processes"], text="one process per device"))
    owner = facts.marks.get("trainer") or facts.marks.get("accelerator") or facts.marks.get("hf_parser")
    if owner is not None and launch.command.launcher != "python":
        return Sourced("ddp", replace(owner, text="wraps the model for data parallelism"))
    if isinstance(per_node, int) and isinstance(nodes, int):
        why = given.value.reason if given.origin.path else "no wrapper (DDP, FSDP, DeepSpeed) is visible"
        return not_known(f"{per_node * nodes} processes, and {why}", given.origin)
    return given
