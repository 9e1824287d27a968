"""Modal apps: functions with ``gpu=…`` and the command they start, or the training in their own body.

The analyzer says which values reach ``gpu``; the default of ``os.environ.get`` counts as it stands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from analyzer import api as analyzer
from analyzer.api import Argument, CallSite, Known, Ref, Unseen
from estimator.launch.base import Arg, Command, LaunchConfig, Request, Target, not_known
from estimator.launch.embedded import launches, one
from estimator.launch.modal_gpus import target_of
from estimator.launch.python_text import Scope, Text, assigned
from estimator.launch.topology import processes
from estimator.sourced import Origin, Sourced

_DECORATORS = frozenset({"*.function", "*.cls"})
_OLD_GPUS = ("A100", "H100", "H200", "B200", "A10G", "A10", "L4", "L40S", "T4")
_IMPORTS = re.compile(rb"^\s*(?:import modal\b|from modal\b)", re.MULTILINE)
_STARTS = re.compile(r"python|torchrun|accelerate|deepspeed|axolotl|litgpt|llamafactory|\btune\b|\.sh\b|\btrl\b")
_TRAINS = re.compile(r"\.backward\(|\.fit\(|Trainer\b|\btrainer\.")
_MAX_CALLS = 4  # functions called by functions
_MAX_SOURCE = 512 * 1024


class ModalReader:
    """Python files with ``@app.function(gpu=…)``."""

    format = "modal"
    rank = 31

    def detect(self, path: str, content: bytes) -> bool:
        """A Python file that uses modal and asks for a GPU (it may come from another file of the app)."""
        return path.endswith(".py") and b"gpu" in content and bool(_IMPORTS.search(content) or _is_part(content))

    def read(self, request: Request) -> tuple[LaunchConfig, ...]:
        """The training commands of every function that has a GPU."""
        try:
            tree = ast.parse(request.content) if len(request.content) < _MAX_SOURCE else ast.Module([], [])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ()
        wanted = _DECORATORS | {f"modal.gpu.{name}" for name in _OLD_GPUS}
        sites = analyzer.call_sites(request.files, request.path, wanted)
        decorated = {
            site.origin.line: site
            for site in sites
            if site.callee in _DECORATORS and site.origin.path == request.path and "gpu" in site.arguments
        }
        old = {site.origin.line: site for site in sites if site.callee.startswith("modal.gpu.")}
        app = _App(request, tree, old)
        jobs = [(node, site) for node, line in _definitions(tree) if (site := decorated.get(line)) is not None]
        found = [launch for node, site in jobs for launch in app.commands(node, site)]
        if not found:
            own = [job for job in jobs if _TRAINS.search(ast.unparse(job[0]))] or jobs
            found = [app.itself(*own[0])] if len(own) == 1 else []
        return tuple(found)


READER = ModalReader()


def _is_part(content: bytes) -> bool:
    return b"@app.function" in content or b"@stub.function" in content


def _definitions(tree: ast.Module) -> Iterator[tuple[ast.stmt, int]]:
    """Functions and classes with the line of each of their decorators."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                yield node, decorator.lineno


@dataclass(slots=True)
class _App:
    request: Request
    tree: ast.Module
    old: Mapping[int, CallSite]

    def commands(self, node: ast.stmt, site: CallSite) -> Iterator[LaunchConfig]:
        """What a function starts, itself or through functions of its file."""
        target = self.target(site)
        devices = target.gpus_per_node.value
        seen: set[tuple[int, tuple[str, ...]]] = set()
        for function in self.reached(node):
            scopes: tuple[Scope, ...] = (*_own_scope(function), assigned(self.tree.body))
            text = Text(self.request.path, scopes, devices if isinstance(devices, int) else None)
            for call in (item for item in ast.walk(function) if isinstance(item, ast.Call)):
                shell = text.command(call)
                if shell is None or not _STARTS.search(shell):
                    continue
                found = launches(self.request, "modal", (call.lineno, shell), target, text.holes)
                for launch in found:
                    key = launch.line, tuple(word.text for word in launch.command.words)
                    if key not in seen:
                        seen.add(key)
                        yield launch

    def itself(self, node: ast.stmt, site: CallSite) -> LaunchConfig:
        """The file as the script: one process that trains in the function."""
        target = self.target(site)
        script = Arg(self.request.path, self.request.path, node.lineno)
        command = Command(words=(script,), launcher="python", script=script, is_module=False, argv=())
        return LaunchConfig(
            path=self.request.path, line=site.origin.line, format="modal", target=target,
            processes=processes(command, target, None), command=command,
        )  # fmt: skip

    def reached(self, node: ast.stmt) -> list[ast.stmt]:
        """The function and those of this file that it calls."""
        known = {
            item.name: item for item in self.tree.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        found, pending = [node], [(node, 0)]
        while pending:
            current, depth = pending.pop()
            names = {item.func.id for item in ast.walk(current) if _calls_name(item)}  # type: ignore[attr-defined]
            for name in sorted(names & known.keys()):
                if known[name] not in found and depth < _MAX_CALLS:
                    found.append(known[name])
                    pending.append((known[name], depth + 1))
        return found

    def target(self, site: CallSite) -> Target:
        nodes = one("one container", self.request.path)
        items = site.arguments["gpu"]
        texts = tuple(dict.fromkeys(text for item in items for text in self.names(item)))
        place = next((item.origin for item in items if list(self.names(item))), site.origin)
        origin = Origin(f"gpu={', '.join(texts)}"[:80], place.path, place.line)
        hidden = [item for item in items if isinstance(item, Unseen) and not list(self.names(item))]
        is_default = bool(texts) and any(item.reason.startswith("environment variable") for item in hidden)
        if hidden and not is_default:
            unknown: Sourced[tuple[str, ...]] = not_known(f"gpu: {hidden[0].reason}", origin)
            return Target(gpu=unknown, gpus_per_node=not_known(f"gpu: {hidden[0].reason}", origin), nodes=nodes)
        gpu, count = target_of(texts, origin)
        return Target(gpu=gpu, gpus_per_node=count, nodes=nodes)

    def names(self, item: Argument) -> Iterator[str]:
        """GPU names of one value: a string, a list of strings, ``modal.gpu.A100(count=2, size="80GB")``."""
        if isinstance(item, Known) and isinstance(item.value, str):
            yield item.value
        elif isinstance(item, Ref) and item.items is not None:
            yield from (name for _, values in item.items for value in values for name in self.names(value))
        elif isinstance(item, Unseen) and (old := self.old.get(item.origin.line)) is not None:
            size, count = _constant(old, "size", ""), _constant(old, "count", 1)
            name = old.callee.rsplit(".", 1)[-1]
            yield f"{name}-{str(size).upper()}:{count}" if size else f"{name}:{count}"


def _calls_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _own_scope(function: ast.stmt) -> tuple[Scope, ...]:
    """Names of a function; its parameters are known to nobody here."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ()
    given = function.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return ({**dict.fromkeys(item.arg for item in parameters), **assigned(function.body)},)


def _constant(site: CallSite, name: str, default: object) -> object:
    found = [item.value for item in site.arguments.get(name, ()) if isinstance(item, Known)]
    return found[0] if len(found) == 1 and found[0] is not None else default
