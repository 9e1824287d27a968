"""Instance types as targets: ``ml.p4d.24xlarge`` is eight A100s of 40 GB."""

from __future__ import annotations

from estimator import hardware
from estimator.launch.base import not_known
from estimator.sourced import Origin, Sourced, Unknown


def of_instance(name: str, origin: Origin) -> tuple[Sourced[tuple[str, ...]], Sourced[int]]:
    """GPU and GPUs per node of an instance type; SageMaker's ``ml.`` is EC2's name behind a prefix."""
    plain = name.strip().removeprefix("ml.")
    if not hardware.is_instance(plain):
        unknown = f"{name[:60]!r} is no instance type with a GPU that we know"
        return not_known(unknown, origin), not_known(unknown, origin)
    cards = hardware.find(plain)
    gpu = Sourced(tuple(dict.fromkeys(card.name for card in cards)), origin)
    counts = tuple(dict.fromkeys(card.count for card in cards if card.is_stated))
    if len(counts) != 1:
        return gpu, not_known(f"{name[:60]}: a share of a GPU, or several sizes", origin)
    return gpu, Sourced(counts[0], origin)


def of_instances(names: tuple[str, ...], origin: Origin) -> tuple[Sourced[tuple[str, ...]], Sourced[int]]:
    """The same for alternatives: every GPU it may be; the count where they agree."""
    found = [of_instance(name, origin) for name in names]
    gpus = [name for gpu, _ in found if not isinstance(gpu.value, Unknown) for name in gpu.value]
    counts = tuple(dict.fromkeys(count.value for _, count in found if isinstance(count.value, int)))
    if len(found) == 1:
        return found[0]
    count = Sourced(counts[0], origin) if len(counts) == 1 else not_known("instance types of different sizes", origin)
    gpu = (
        Sourced(tuple(dict.fromkeys(gpus)), origin) if gpus else found[0][0] if found else not_known("no type", origin)
    )
    return gpu, count
