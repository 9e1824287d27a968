"""Axolotl's cloud files on their own: the hardware of a run whose configuration the command names."""

from __future__ import annotations

from estimator.launch.base import Arg, Command, LaunchConfig, Processes, Request, not_known
from estimator.launch.cloud_files import cloud_target, is_cloud_file
from estimator.launch.embedded import any_document, looks_like, roots


class AxolotlCloudReader:
    """``gpu`` and ``gpu_count`` of a cloud."""

    format = "axolotl-cloud"
    rank = 60

    def detect(self, path: str, content: bytes) -> bool:
        """A document that names the GPU of a cloud."""
        if not looks_like(path, content, b"gpu"):
            return False
        return any_document(path, content, is_cloud_file)

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """One launch whose recipe is not known."""
        found = []
        for root in roots(request):
            if not is_cloud_file(root):
                continue
            target = cloud_target(root)
            reason = "the run's configuration is named by the command (axolotl train FILE --cloud …)"
            script = Arg("$CONFIG", request.path, root.line, reason)
            words = (Arg("axolotl", request.path, root.line), Arg("train", request.path, root.line), script)
            command = Command(words=words, launcher="axolotl", script=script, is_module=False, argv=())
            found.append(
                LaunchConfig(
                    path=request.path, line=root.line, format=self.format, target=target, command=command,
                    processes=Processes(per_node=not_known(reason), nodes=target.nodes),
                )
            )  # fmt: skip
        return tuple(found)


READER = AxolotlCloudReader()
