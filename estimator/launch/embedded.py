"""Shell text and argument lists inside other files: read as a script whose lines are those of the file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from estimator.launch.base import Arg, Command, LaunchConfig, Request, Target, not_known
from estimator.launch.documents import Node, UnreadableDocument, documents
from estimator.launch.shell import launches_in
from estimator.launch.topology import processes
from estimator.sourced import Origin, Sourced

_TEMPLATE = re.compile(r"\$\{\{\s*([^}]*)\}\}")


def roots(request: Request) -> tuple[Node, ...]:
    """The documents of the file; a file that cannot be read has none (`detect` said so already)."""
    try:
        return documents(request.path, request.content)
    except UnreadableDocument:
        return ()


def looks_like(path: str, content: bytes, *words: bytes) -> bool:
    """A YAML or JSON file that holds every one of `words`: cheap, before it is parsed."""
    return path.endswith((".yaml", ".yml", ".json")) and all(word in content for word in words)


def any_document(path: str, content: bytes, is_meant: Callable[[Node], object]) -> bool:
    """Whether `is_meant` says yes, or gives something, of a document of the file. One that cannot be read has none."""
    try:
        return any(is_meant(root) for root in documents(path, content))
    except UnreadableDocument:
        return False


def script_text(node: Node) -> tuple[int, str]:
    """The shell text of a scalar, or of a list of lines, and the line it starts on."""
    if node.is_list:
        items = node.items()
        return (items[0].line, "\n".join(item.text for item in items)) if items else (node.line, "")
    return node.line + (1 if node.is_block else 0), node.text


def joined(words: Sequence[Node]) -> tuple[int, str]:
    """A command given as a list of words, quoted for a shell, on the line of its first word."""
    texts = [word.text for word in words]
    if (
        len(texts) >= 3
        and texts[0].rsplit("/", 1)[-1] in {"bash", "sh"}
        and texts[1].startswith("-")
        and "c" in texts[1]
    ):
        script = words[3] if texts[2] == "--" and len(words) > 3 else words[2]
        return script_text(script)
    quoted = [
        text if re.fullmatch(r"[\w./:=,@%+\-]*\$\{?\w+\}?[\w./:=,@%+\-]*", text) else shlex.quote(text)
        for text in texts
    ]
    return words[0].line, " ".join(quoted)


def environment(node: Node | None) -> dict[str, Arg]:
    """``NAME: value``, ``- name/value`` and ``- NAME=value`` as variables; values from elsewhere stay unknown."""
    if node is None:
        return {}
    found = {
        name: _variable(name, item) for name, item in node.mapping().items() if not item.mapping() and not item.is_list
    }
    for item in node.items() if node.is_list else []:
        name, value = item.get("name"), item.get("value")
        if name is not None:
            found[name.text] = _variable(name.text, value or name) if value is not None else _absent(name)
        elif "=" in item.text:
            key, _, text = item.text.partition("=")
            found[key] = Arg(text, item.path, item.line)
        elif item.text:
            found[item.text] = Arg(f"${item.text}", item.path, item.line, f"{item.text} is given where it is submitted")
    return {name: arg for name, arg in found.items() if re.fullmatch(r"[A-Za-z_]\w*", name)}


def _variable(name: str, node: Node) -> Arg:
    if node.value is None:
        return Arg(f"${name}", node.path, node.line, f"{name} is given where it is submitted")
    if _TEMPLATE.search(node.text) or "$(" in node.text or "{{" in node.text:
        return Arg(f"${name}", node.path, node.line, f"{name} is filled in at run time")
    return Arg(node.text, node.path, node.line)


def _absent(name: Node) -> Arg:
    return Arg(f"${name.text}", name.path, name.line, f"{name.text} comes from the cluster")


def launches(
    request: Request, format_name: str, text: tuple[int, str], target: Target, variables: Mapping[str, Arg]
) -> tuple[LaunchConfig, ...]:
    """The launches of shell `text` (its line and its words) on hardware that the file around it names."""
    line, script = text
    script = _TEMPLATE.sub(lambda match: "$" + re.sub(r"\W+", "_", f"TEMPLATE_{match[1].strip()}"), script)
    content = ("\n" * (line - 1) + script).encode("utf-8", "replace")
    inner = replace(request, content=content)

    def target_of(command: Command, step: Mapping[str, Arg]) -> Target:
        if target.gpus_per_node.is_known:
            return target
        started = processes(command, target, None).per_node
        return replace(target, gpus_per_node=started) if started.is_known and command.launcher != "python" else target

    return launches_in(inner, format_name, variables, target_of, lambda step: None)


def number(node: Node | None, words: str) -> Sourced[int] | None:
    """A positive whole number; None where there is no node; unknown where it is filled in later."""
    if node is None or node.value is None:
        return None
    origin = node.origin(f"{words}: {node.text}"[:80])
    value = node.value
    if isinstance(value, str) and re.fullmatch(r"\d{1,6}", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 65536:
        return Sourced(value, origin)
    return not_known(f"{words} {node.text[:40]!r} is not a number", origin)


def one(words: str, path: str) -> Sourced[int]:
    """One, because the format says so where nothing is written."""
    return Sourced(1, Origin(words, path, 0))
