"""Slurm batch scripts: ``#SBATCH`` directives and the commands under them.

Rules (sbatch(1), 24.05): directives count only before the first command; a later one overrides an earlier one; options
of the command line beat them; they are literal, no shell variable expands in them; ``##SBATCH`` is a comment.
``--gres`` and ``--gpus-per-node`` count per node, ``--gpus`` for the whole job.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from analyzer.errors import InputError
from estimator import hardware
from estimator.launch.base import Arg, Command, LaunchConfig, Request, Target, not_known
from estimator.launch.shell import launches_in
from estimator.launch.topology import count
from estimator.sourced import Origin, Sourced, Unknown

_DIRECTIVE = re.compile(rb"^#SBATCH\b", re.MULTILINE)
_LONG = {
    "-N": "--nodes", "-n": "--ntasks", "-p": "--partition", "-C": "--constraint", "-G": "--gpus", "-J": "--job-name",
    "-c": "--cpus-per-task", "-t": "--time", "-A": "--account", "-o": "--output", "-e": "--error",
}  # fmt: skip
_MAX_DIRECTIVES = 500


@dataclass(frozen=True, slots=True)
class Directives:
    """The options of a job, by long name, later ones winning; `is_heterogeneous` when the job has components."""

    options: Mapping[str, Arg] = field(default_factory=dict)
    is_heterogeneous: bool = False


def directives(path: str, content: bytes, given: tuple[Arg, ...] = ()) -> Directives:
    """What ``#SBATCH`` lines ask for, with the options of a submit command (`given`) on top."""
    options: dict[str, Arg] = {}
    is_heterogeneous = False
    for line, text in _directive_lines(content):
        words = _words(text)
        if words[:1] and words[0] in {"hetjob", "packjob"}:
            is_heterogeneous = True
        if not is_heterogeneous:
            options.update(_options([Arg(word, path, line) for word in words]))
    options.update(_options(list(given)))
    return Directives(options, is_heterogeneous)


def _directive_lines(content: bytes) -> Iterator[tuple[int, str]]:
    """``#SBATCH`` lines before the first command."""
    num_found = 0
    for number, raw in enumerate(content.splitlines(), start=1):
        line = raw.strip()
        if raw.startswith(b"#SBATCH") and raw[7:8] in {b" ", b"\t"}:
            num_found += 1
            if num_found <= _MAX_DIRECTIVES:
                yield number, raw[7:1000].decode("utf-8", "replace")
        elif line and not line.startswith(b"#"):
            return


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text, comments=False)
    except ValueError:
        words = text.split()
    stop = next((index for index, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:stop]


def _options(words: list[Arg]) -> dict[str, Arg]:
    found: dict[str, Arg] = {}
    index = 0
    while index < len(words):
        word = words[index]
        name, has_value, value = word.text.partition("=")
        if not name.startswith("--") and name[:2] in _LONG and not has_value and len(name) > 2:
            name, value, has_value = name[:2], word.text[2:], "="  # -N2
        elif not name.startswith("--") and has_value and len(name) > 2:
            name, value = name[:2], word.text[2:]  # -Cgpu=a100
        elif not has_value and index + 1 < len(words) and not words[index + 1].text.startswith("-"):
            index += 1
            value = words[index].text
        if name.startswith("-"):
            found[_LONG.get(name, name)] = Arg(value, word.path, word.line, words[index].unknown)
        index += 1
    return found


# --- what the options say about hardware ----------------------------------------------------------------------


def _gres(text: str) -> tuple[str, int] | None:
    """Type and count of the GPU part of a ``--gres`` value; the type is empty when it is not given."""
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = item.strip().removeprefix("gres/").split(":")
        if parts[0] == "gpu":
            return _typed(parts[1:])
    return None


def _typed(parts: list[str]) -> tuple[str, int] | None:
    """``a100:4``, ``4``, ``a100`` or nothing."""
    if not parts or parts == [""]:
        return "", 1
    last = parts[-1]
    if re.fullmatch(r"\d{1,5}", last):
        return ":".join(parts[:-1]), int(last)
    return ":".join(parts), 1


def _gpu_request(options: Mapping[str, Arg], nodes: Sourced[int]) -> tuple[str, Sourced[int], Arg | None]:
    """The GPU type as written, GPUs per node, and the option that says so."""
    for name in ("--gpus-per-node", "--gres", "--gpus", "--gpus-per-task"):
        arg = options.get(name)
        if arg is None:
            continue
        origin = arg.origin(f"{name}={arg.text}")
        if arg.unknown:
            return "", Sourced(Unknown(arg.unknown), origin), arg
        found = _gres(arg.text) if name == "--gres" else _typed(arg.text.split(":"))
        if found is not None:
            return found[0], _per_node(name, found[1], nodes, options, origin), arg
    return "", not_known("no GPU is asked for in the directives"), None


def _per_node(name: str, number: int, nodes: Sourced[int], options: Mapping[str, Arg], origin: Origin) -> Sourced[int]:
    if name in {"--gpus-per-node", "--gres"}:
        return Sourced(number, origin)
    if not isinstance(nodes.value, int):
        return not_known("GPUs of the whole job over a number of nodes that is not known", origin)
    if name == "--gpus":
        if number % nodes.value:
            return not_known(f"{number} GPUs do not divide over {nodes.value} nodes", origin)
        return Sourced(number // nodes.value, origin)
    tasks = tasks_per_node(options, nodes)
    value = tasks.value if tasks is not None else 1
    return (
        Sourced(number * value, origin) if isinstance(value, int) else not_known("tasks per node are unknown", origin)
    )


def tasks_per_node(options: Mapping[str, Arg], nodes: Sourced[int]) -> Sourced[int] | None:
    """``--ntasks-per-node``, or ``--ntasks`` over the nodes; None when neither is given."""
    if "--ntasks-per-node" in options:
        return count(options["--ntasks-per-node"], "--ntasks-per-node")
    if "--ntasks" not in options:
        return None
    total = count(options["--ntasks"], "--ntasks")
    if isinstance(total.value, int) and isinstance(nodes.value, int) and total.value % nodes.value == 0:
        return Sourced(total.value // nodes.value, total.origin)
    return not_known("tasks over a number of nodes that is not known", total.origin)


def _nodes(options: Mapping[str, Arg]) -> Sourced[int]:
    if "--nodes" in options:
        return count(options["--nodes"], "--nodes")
    return Sourced(1, Origin("one node unless --nodes asks for more (sbatch)"))


def _alternatives(constraint: str) -> list[list[str]]:
    """Features of each alternative of a constraint: ``a|b``, ``[a*2&b]``."""
    cleaned = re.sub(r"[\[\]()]", "", constraint)
    return [
        [re.sub(r"\*\d+$", "", item).strip() for item in re.split(r"[&,]", part)] for part in re.split(r"\|", cleaned)
    ]


def _gpu(
    options: Mapping[str, Arg], written: str, asked: Arg | None, labels: Mapping[str, str]
) -> Sourced[tuple[str, ...]]:
    """The GPU: the typed request, which a constraint may narrow, else constraint, else partition. Site names only mean
    what `labels` says they do."""
    constrained = _constrained(options.get("--constraint"), labels)
    if written and asked is not None:
        if constrained is not None and written not in labels and _narrows(constrained[0], written):
            return Sourced(*constrained)
        return Sourced((labels.get(written, written),), asked.origin(f"gpu type {written}"))
    if constrained is not None:
        return Sourced(*constrained)
    partition = options.get("--partition")
    if partition is None:
        return not_known("no GPU type in the directives")
    names = [labels.get(name.strip(), "") for name in partition.text.split(",")]
    origin = partition.origin(f"--partition={partition.text}")
    if all(names):
        return Sourced(tuple(dict.fromkeys(names)), origin)
    return not_known(f"partition {partition.text} is not in the `targets` map of the Preflight configuration", origin)


def _constrained(constraint: Arg | None, labels: Mapping[str, str]) -> tuple[tuple[str, ...], Origin] | None:
    """The GPUs of a constraint each alternative of which names one."""
    if constraint is None or not constraint.is_known:
        return None
    found = [_named(features, labels) for features in _alternatives(constraint.text)]
    origin = constraint.origin(f"--constraint={constraint.text}")
    return (tuple(dict.fromkeys(found)), origin) if found and all(found) else None


def _narrows(names: tuple[str, ...], written: str) -> bool:
    """Whether a constraint says which of several cards a typed request means: both hold for a node."""
    meant, named = set(_cards(written)), {card for name in names for card in _cards(name)}
    return bool(named) and named < meant


def _named(features: list[str], labels: Mapping[str, str]) -> str:
    mapped = [labels[feature] for feature in features if feature in labels]
    named = [feature for feature in features if _is_card(feature)]
    return (mapped or named or [""])[0]


def _is_card(feature: str) -> bool:
    """Whether a feature is the name of a GPU (a bare size such as ``80g`` is a site's word)."""
    return feature[:1].isalpha() and bool(_cards(feature))


def _cards(name: str) -> tuple[hardware.Card, ...]:
    try:
        return hardware.find(name)
    except InputError:
        return ()


class SlurmReader:
    """``sbatch`` scripts."""

    format = "slurm"
    rank = 10

    def detect(self, path: str, content: bytes) -> bool:
        """A script with a directive."""
        return bool(_DIRECTIVE.search(content[:65536])) or (
            path.endswith((".slurm", ".sbatch")) and b"python" in content
        )

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """Every launch of the job."""
        found = directives(request.path, request.content, request.options)

        def options_with(step: Mapping[str, Arg]) -> Mapping[str, Arg]:
            return {**found.options, **_renamed(step)}

        def target_of(command: Command, step: Mapping[str, Arg]) -> Target:
            return _target(options_with(step), request.labels, found.is_heterogeneous, command)

        def tasks_of(step: Mapping[str, Arg]) -> Sourced[int] | None:
            options = options_with(step)
            return tasks_per_node(options, _nodes(options)) if "srun" in step else None

        return launches_in(request, self.format, _variables(found.options, request), target_of, tasks_of)


READER = SlurmReader()


def _renamed(step: Mapping[str, Arg]) -> dict[str, Arg]:
    return {_LONG.get(name, name): value for name, value in step.items()}


def _target(options: Mapping[str, Arg], labels: Mapping[str, str], is_heterogeneous: bool, command: Command) -> Target:
    nodes = _nodes(options)
    written, per_node, asked = _gpu_request(options, nodes)
    gpu = _gpu(options, written, asked, labels)
    if is_heterogeneous:
        gpu = not_known("the components of a heterogeneous job ask for different hardware")
    if asked is None:
        per_node = _from_launcher(command) or per_node
    return Target(gpu=gpu, gpus_per_node=per_node, nodes=nodes)


def _from_launcher(command: Command) -> Sourced[int] | None:
    """Sites without gres (AWS ParallelCluster): one process per GPU is what the launcher is told."""
    arg = command.options.get("--nproc-per-node") or command.options.get("--num-gpus")
    return count(arg, "--nproc-per-node") if arg is not None and arg.is_known and arg.text.isdigit() else None


def _variables(options: Mapping[str, Arg], request: Request) -> dict[str, Arg]:
    """What Slurm sets in the job's environment, as far as the directives say."""
    nodes = _nodes(options)
    per_node = _gpu_request(options, nodes)[1]
    values: dict[str, Sourced[int] | None] = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_GPUS_ON_NODE": per_node,
        "SLURM_NTASKS_PER_NODE": tasks_per_node(options, nodes) if "--ntasks-per-node" in options else None,
    }
    for variable, option in (("SLURM_NTASKS", "--ntasks"), ("SLURM_CPUS_PER_TASK", "--cpus-per-task")):
        values[variable] = count(options[option], option) if option in options else None
    known = {name: value for name, value in values.items() if value is not None and isinstance(value.value, int)}
    return {
        name: Arg(str(value.value), value.origin.path or request.path, value.origin.line or 1)
        for name, value in known.items()
    }
