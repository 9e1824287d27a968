"""What the texts of a tree give a setting: its configurations, its scripts, its pages, and the defaults in its code.

Whether a setting is ever turned on decides nothing by itself; it tells whether what only happens then happens to
anybody who uses the tree as its authors do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from analyzer.programs import is_python, text, texts

MAX_FILES = 2000
_GIVEN = re.compile(rb"""\b(\w+)["']?[ \t]*(?::[ \t]*(?:bool|int)[ \t]*=|[:=])[ \t]*["']?(?=(\w+))""")
_FLAG = re.compile(rb"(?<![\w-])--?([A-Za-z][\w-]*)(?:[ =]+[\"']?(\w+))?")
_OPTION = re.compile(rb"""["']--([\w-]+)["'][^()]{0,400}?(?:store_true|default\s*=\s*False)""")
_NUMBER = re.compile(rb"""["']--([\w-]+)["'][^()]{0,400}?default\s*=\s*(\d{1,9})\b""")
_LISTED = re.compile(
    rb"^[ \t]*[|*+-][ \t](?!.*(?:python|torchrun|launch|\.py|\.sh)\b).*$", re.MULTILINE | re.IGNORECASE
)
"""A row of a table or an item of a list that explains an option: no command gives it."""
_OTHER = re.compile(r"(?:^|[/_\-.])(?:eval\w*|tests?|infer\w*|demo)(?=[/_\-.])", re.IGNORECASE)
_RUNS = re.compile(rb"\bpython3?[ \t]+(?:-u[ \t]+)?[\w./-]+\.py\b")
_TOGETHER = re.compile(
    rb"torchrun|torch[.]distributed|distributed[ _-](?:train|data|run|mode|learn|launch)|multi[- _]?gpu|deepspeed"
    rb"|mpirun|accelerate[ \t]+launch|\bsrun|horovod|\blocal[_-]rank|\bnproc|\bDDP\b|CUDA_VISIBLE_DEVICES=[\"']?\d+,",
    re.IGNORECASE,
)
_LONGEST = 10
_OFF = frozenset({b"false", b"0", b"no", b"off", b"none", b"null"})
_COMPUTED = frozenset({b"not", b"torch"})
_ON = frozenset({b"true", b"1", b"yes", b"on"})


class Settings:
    """The settings of one tree that are on or off somewhere, by name."""

    def __init__(self, paths: Collection[str], read: Callable[[str], bytes | None]) -> None:
        asked = sorted(path for path in (*texts(paths), *filter(is_python, paths)) if not _OTHER.search(path))
        self._known: dict[str, set[bool]] = {}
        self._largest: dict[str, int] = {}
        self.is_run = self.is_run_together = False
        """Whether a text shows a command that runs a program, and whether one speaks of several processes."""
        for path in asked[:MAX_FILES]:
            source = text(read(path))
            if not is_python(path):
                self.is_run |= _RUNS.search(source) is not None
                self.is_run_together |= _TOGETHER.search(source) is not None
            for name, value in _GIVEN.findall(source):
                self._note(name, value.lower())
            for name, value in _flags(path, source):
                self._note(name.replace(b"-", b"_"), value)

    def _note(self, name: bytes, value: bytes) -> None:
        known = name.decode("ascii", "replace")
        if value in _ON or value in _OFF:
            self._known.setdefault(known, set()).add(value in _ON)
        if value in _COMPUTED:  # ``args.cuda = not args.no_cuda and torch.cuda.is_available()``
            self._known.setdefault(known, set()).update((True, False))
        if value.isdigit() and len(value) < _LONGEST:
            self._largest[known] = max(self._largest.get(known, 0), int(value))

    def is_left_off(self, name: str) -> bool:
        """Whether the tree turns a setting off, and nothing in it turns it on."""
        return self._known.get(name) == {False}

    def largest(self, name: str) -> int:
        """The largest number that the tree gives a setting; 0 where it gives none."""
        return self._largest.get(name, 0)

    def is_left_on(self, name: str) -> bool:
        """Whether the tree turns a setting on, and nothing in it turns it off."""
        return self._known.get(name) == {True}


def _flags(path: str, source: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The options of command lines: on where one is given; off where the code declares it so; numbers as they are."""
    if path.endswith(".py"):
        yield from ((name, b"off") for name in _OPTION.findall(source))
        yield from _NUMBER.findall(source)
    else:
        source = _LISTED.sub(b"", source)
        for name, value in _FLAG.findall(source):
            yield name, value if value.isdigit() else b"off" if value.lower() in _OFF else b"on"
