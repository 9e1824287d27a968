"""Why a file gave no launch: what is said of files that nobody may think were read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from analyzer import api as analyzer
from analyzer.api import Files
from analyzer.findings import Skipped
from estimator.launch.base import Arg, reader_for
from estimator.launch.documents import MAX_BYTES, UnreadableDocument, documents
from estimator.launch.places import find_named, is_in_tool_folder

CONFIG_SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_PYTHON = (".py", ".ipynb")
_RUNS = re.compile(rb"[\w./\-]{1,200}\.(?:sh|py)\b")
_RULE = "PF501"  # ours: the analyzer has no rule of this code, so it only parses
_MAX_SHOWN = 3
_PARTS = {
    "distributed_type": "accelerate",
    "zero_optimization": "DeepSpeed",
    "train_micro_batch_size_per_gpu": "DeepSpeed",
}


def too_large(files: Files, paths: Iterable[str]) -> list[Skipped]:
    """One note for the configuration files among `paths` that are larger than what is read; none where none is."""
    found: list[tuple[str, str]] = []
    for path in paths:
        if not path.endswith(CONFIG_SUFFIXES) or is_in_tool_folder(path):
            continue
        content = files.read(path)
        if content is not None and len(content) > MAX_BYTES:
            found.append((path, f"{len(content) / 2**20:.1f} MiB"))
        elif content is None and path in files.paths():
            found.append((path, "too large to hold"))
    if not found:
        return []
    others = "".join(f", {path} ({size})" for path, size in found[1:_MAX_SHOWN])
    others += f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    also = f"; neither{others.removeprefix(',')}" if others else ""
    reason = f"{found[0][1]}: of a configuration file {MAX_BYTES // 1024} KiB are read at most{also}"
    return [Skipped(found[0][0], reason)]


def nothing_in(files: Files, path: str) -> Skipped:
    """Why a file that a person named has no launch."""
    return Skipped(path, _reason(files, path, files.read(path)))


def _reason(files: Files, path: str, content: bytes | None) -> str:
    if content is None:
        return "too large to read, or no file"
    if path.endswith(_PYTHON):
        report = analyzer.analyze(files, [path], analyzer.Options(select=frozenset({_RULE})))
        broken = next((item.reason for item in report.skipped if item.path == path), "")
        return broken or "starts no job that we know (SageMaker, Modal); for what the script itself needs: estimate"
    reader = reader_for(path, content)
    if reader is None and path.endswith(CONFIG_SUFFIXES):
        try:
            roots = documents(path, content)
        except UnreadableDocument as error:
            return str(error)
        for key, kind in _PARTS.items():
            if any(root.get(key) is not None for root in roots):
                return f"a configuration of {kind}: the command that names it is the launch"
        return "no kind of launch file that we know"
    kind = f"{reader.format}: " if reader is not None else ""
    return f"{kind}no command in it starts training that we know{_missing(files, path, content)}"


def _missing(files: Files, path: str, content: bytes) -> str:
    """The scripts that the file names and the tree does not have."""
    names = dict.fromkeys(name.decode("ascii", "replace") for name in _RUNS.findall(content[:MAX_BYTES]))
    gone = [name for name in names if find_named(files, Arg(name, path, 1), ".", path) is None][:_MAX_SHOWN]
    return f"; {', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not in the repository" if gone else ""
