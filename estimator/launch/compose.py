"""Docker Compose services with a GPU reservation. Which GPU the host has, the file never says."""

from __future__ import annotations

from estimator.launch.base import LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node
from estimator.launch.embedded import (
    any_document,
    environment,
    joined,
    launches,
    looks_like,
    number,
    one,
    roots,
    script_text,
)
from estimator.sourced import Sourced


class ComposeReader:
    """``docker compose`` files."""

    format = "compose"
    rank = 48

    def detect(self, path: str, content: bytes) -> bool:
        """A document with services that have images or builds."""
        if not looks_like(path, content, b"services:"):
            return False
        return any_document(path, content, lambda root: list(_services(root)))

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The training commands of the services."""
        found: list[LaunchConfig] = []
        for root in roots(request):
            for service in _services(root):
                words = [part for key in ("entrypoint", "command") if (part := service.get(key)) is not None]
                if not words:
                    continue
                last = words[-1]
                text = joined(last.items()) if last.is_list and last.items() else script_text(last)
                env = environment(service.get("environment"))
                found += launches(request, self.format, text, _target(service), env)
        return tuple(found)


READER = ComposeReader()


def _services(root: Node) -> list[Node]:
    services = root.get("services")
    found = list(services.mapping().values()) if services is not None else []
    return [item for item in found if item.get("image") is not None or item.get("build") is not None]


def _target(service: Node) -> Target:
    gpu = not_known("a compose file does not say which GPU its host has")
    count: Sourced[int] = not_known("all GPUs of the host")
    devices = service.get("deploy.resources.reservations.devices")
    for device in devices.items() if devices is not None else []:
        ids, wanted = device.get("device_ids"), device.get("count")
        if ids is not None and ids.items():
            count = Sourced(len(ids.items()), ids.origin("device_ids"))
        elif wanted is not None and wanted.text != "all":
            count = number(wanted, "count") or count
    return Target(gpu=gpu, gpus_per_node=count, nodes=one("one host", service.path))
