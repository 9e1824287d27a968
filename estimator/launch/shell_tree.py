"""Shell text to a syntax tree, within limits that keep a hostile script harmless. Nothing is ever executed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import tree_sitter
import tree_sitter_bash
from tree_sitter import Node

from estimator.launch.base import UnreadableLaunch

MAX_BYTES = 256 * 1024
MAX_DEPTH = 120  # deepest tree the recursive interpreter walks; hand-written scripts stay below 40
MAX_HEREDOCS = 200  # tree-sitter-bash keeps all open here-documents in its state: time grows with their square


@lru_cache(maxsize=1)
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def parse(source: bytes) -> Node:
    """The root of the tree. Raises `UnreadableLaunch` for what no person writes as a launch script."""
    if len(source) > MAX_BYTES:
        raise UnreadableLaunch(f"larger than {MAX_BYTES // 1024} KiB")
    if b"\0" in source:
        raise UnreadableLaunch("not a text file (it holds NUL bytes)")
    if source.count(b"<<") > MAX_HEREDOCS:
        raise UnreadableLaunch(f"more than {MAX_HEREDOCS} here-documents")
    root = tree_sitter.Parser(_language()).parse(source.replace(b"\r\n", b"\n")).root_node
    if _is_deeper(root, MAX_DEPTH):
        raise UnreadableLaunch(f"nested more than {MAX_DEPTH} levels deep")
    return root


def _is_deeper(root: Node, limit: int) -> bool:
    cursor, depth = root.walk(), 0
    while True:
        if cursor.goto_first_child():
            depth += 1
            if depth > limit:
                return True
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False
            depth -= 1


def text_of(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def line_of(node: Node) -> int:
    """The 1-based first line of a node."""
    return node.start_point.row + 1


def descendants(node: Node, kind: str) -> Iterator[Node]:
    """Every node of one type below `node`, itself included."""
    pending = [node]
    while pending:
        current = pending.pop()
        if current.type == kind:
            yield current
        pending.extend(reversed(current.children))
