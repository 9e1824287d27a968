"""Vertex AI custom jobs: ``workerPoolSpecs`` with machines, accelerators and containers. Pool 0 is the chief."""

from __future__ import annotations

from estimator.launch.base import LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import any_document, environment, joined, launches, looks_like, number, one, roots
from estimator.launch.instances import of_instance
from estimator.sourced import Origin, Sourced

_POOLS = ("workerPoolSpecs", "jobSpec.workerPoolSpecs", "trialJobSpec.workerPoolSpecs", "worker_pool_specs")


class VertexReader:
    """``gcloud ai custom-jobs create --config=FILE``."""

    format = "vertex"
    rank = 44

    def detect(self, path: str, content: bytes) -> bool:
        """A document with worker pools."""
        if not (looks_like(path, content, b"workerPoolSpecs") or looks_like(path, content, b"worker_pool_specs")):
            return False
        return any_document(path, content, _pools)

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The command of the chief, on the machines of all pools that have its kind."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            pools = _pools(root)
            if pools:
                found += self._job(request, pools)
        return tuple(found)

    def _job(self, request: Request, pools: list[Node]) -> tuple[LaunchConfig, ...]:
        chief = pools[0]
        words = [
            item
            for key in ("containerSpec.command", "containerSpec.args", "container_spec.command", "container_spec.args")
            if (node := chief.get(key)) is not None
            for item in node.items()
        ]
        module = chief.get("pythonPackageSpec.pythonModule") or chief.get("python_package_spec.python_module")
        if words:
            text = joined(words)
        elif module is not None:
            given = chief.get("pythonPackageSpec.args") or chief.get("python_package_spec.args")
            line, arguments = joined(given.items()) if given is not None and given.items() else (module.line, "")
            text = line, f"python -m {module.text} {arguments}"
        else:
            return ()
        env = environment(chief.get("containerSpec.env") or chief.get("container_spec.env"))
        return launches(request, self.format, text, _target(pools), env)


READER = VertexReader()


def _pools(root: Node) -> list[Node]:
    for key in _POOLS:
        pools = root.get(key)
        if pools is not None and pools.is_list:
            return [pool for pool in pools.items() if pool.mapping()]
    return []


def _machine(pool: Node, name: str, other: str) -> Node | None:
    return pool.get(f"machineSpec.{name}") or pool.get(f"machine_spec.{other}")


def _target(pools: list[Node]) -> Target:
    chief = pools[0]
    kind, machine = (
        _machine(chief, "acceleratorType", "accelerator_type"),
        _machine(chief, "machineType", "machine_type"),
    )
    counted = number(_machine(chief, "acceleratorCount", "accelerator_count"), "acceleratorCount")
    gpu: Sourced[tuple[str, ...]] = not_known("the machine has no accelerator")
    count: Sourced[int] = not_known("the machine has no accelerator")
    if machine is not None and machine.text:
        gpu, count = of_instance(machine.text, machine.origin(f"machineType: {machine.text}"))
    if kind is not None and kind.text:
        gpu = Sourced((kind.text,), kind.origin(f"acceleratorType: {kind.text}"))
        count = counted or one("one accelerator unless acceleratorCount says more", kind.path)
    return Target(gpu=gpu, gpus_per_node=counted or count, nodes=_nodes(pools))


def _nodes(pools: list[Node]) -> Sourced[int]:
    total, origin = 0, Origin("one machine per pool unless replicaCount says more", pools[0].path)
    for pool in pools:
        given = number(pool.get("replicaCount") or pool.get("replica_count"), "replicaCount")
        if given is not None and not isinstance(given.value, int):
            return given
        total += given.value if given is not None and isinstance(given.value, int) else 1
        origin = given.origin if given is not None else origin
    return Sourced(total, origin)
