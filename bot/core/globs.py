"""Globs of the configuration, as in a `.gitignore` without negation, in time that no pattern can blow up.

A pattern with a slash (not only at its end) is anchored at the root of the repository; others match at any depth.
``*`` and ``?`` stay inside a name, ``**`` crosses folders, ``[a-c]`` is a set; what matches a folder matches all below.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

MAX_PATTERN = 200
_SET = re.compile(r"\[(!?)(\]?[^\]]*)\]")
_Token = str | frozenset[str]
"""``?`` for any character, ``*`` for any number of them; a set as its members, with ``!!`` all but them."""


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches the path (relative to the root, with slashes)."""
    names = path.split("/")
    return any(_below(names, _segments(pattern)) for pattern in patterns)


@functools.lru_cache(maxsize=1024)
def _segments(pattern: str) -> tuple[str, ...]:
    body = pattern[:MAX_PATTERN].removeprefix("./").rstrip("/")
    is_anchored = "/" in body
    found = [part for part in body.lstrip("/").split("/") if part]
    return tuple(found if is_anchored or not found else ["**", *found])


def _below(names: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the path or a folder of it fits. `reach` are the numbers of segments that may be used up by now; a ``**``
    at the end takes one name or more, so that ``a/**`` is what is below ``a`` and never ``a`` itself."""
    if not wanted:
        return False
    reach = _skip_stars({0}, wanted)
    for name in names:
        following = set()
        for at in reach:
            if at < len(wanted):
                if wanted[at] == "**":
                    following.add(at if at < len(wanted) - 1 else len(wanted))
                elif name_matches(name, wanted[at]):
                    following.add(at + 1)
        reach = _skip_stars(following, wanted)
        if len(wanted) in reach:  # the rest of the path is below it
            return True
    return False


def _skip_stars(reach: set[int], wanted: Sequence[str]) -> set[int]:
    """``**`` may stand for no folder at all, except at the end."""
    found = set(reach)
    for at in sorted(reach):
        here = at
        while here < len(wanted) - 1 and wanted[here] == "**":
            here += 1
            found.add(here)
    return found


def name_matches(name: str, pattern: str) -> bool:
    """Whether one name fits one segment. Greedy with one point to fall back to: linear times linear at worst."""
    tokens = _tokens(pattern)
    at = token = 0
    star, mark = -1, 0
    while at < len(name):
        if token < len(tokens) and tokens[token] == "*":
            star, mark = token, at
            token += 1
        elif token < len(tokens) and _fits(name[at], tokens[token]):
            at, token = at + 1, token + 1
        elif star >= 0:
            mark += 1
            at, token = mark, star + 1
        else:
            return False
    return all(item == "*" for item in tokens[token:])


@functools.lru_cache(maxsize=1024)
def _tokens(pattern: str) -> tuple[_Token, ...]:
    found: list[_Token] = []
    at = 0
    while at < len(pattern):
        group = _SET.match(pattern, at) if pattern[at] == "[" else None
        if group and group[2]:
            found.append(frozenset([*_members(group[2]), *(["!!"] if group[1] else [])]))
            at = group.end()
            continue
        if not (pattern[at] == "*" and found and found[-1] == "*"):
            found.append(pattern[at] if pattern[at] in "*?" else frozenset(pattern[at]))
        at += 1
    return tuple(found)


def _members(text: str) -> Iterable[str]:
    at = 0
    while at < len(text):
        if at + 2 < len(text) and text[at + 1] == "-" and ord(text[at]) <= ord(text[at + 2]) < 0x250:
            yield from map(chr, range(ord(text[at]), ord(text[at + 2]) + 1))
            at += 3
        else:
            yield text[at]
            at += 1


def _fits(character: str, wanted: _Token) -> bool:
    if isinstance(wanted, str):
        return wanted == "?"
    return (character in wanted) != ("!!" in wanted)
