"""A file in rough: what it defines at its top, which words it reads, and whether it does anything when it is run.

Read off lines and words, not parsed: `analyzer.reach` asks this of every file of a tree. That errs to the side of what
is used: a word is read whatever it means there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_NOT_CODE = re.compile(
    rb"\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"(?:\\[\s\S]|[^\"\\\n])*\"?|'(?:\\[\s\S]|[^'\\\n])*'?|#[^\n]*|\\\r?\n"
)
"""Strings, comments, joined lines. A string that does not end is one to the end of its line: else it would be looked
for again from each of its characters."""
_WORD = re.compile(rb"[A-Za-z_]\w*\b(?![ \t]*=(?!=))")
"""Words that are read: ``train=True`` and ``train = 1`` use no function of that name."""
_HOLDS_CODE = re.compile(rb"(?:\b[rR]?[fF][rR]?|\b(?:getattr|hasattr|attrgetter|methodcaller)\([^()]*)$")
"""What stands on the line before a string that holds code, or a name that is looked up."""
_MAX_BEFORE = 400
"""How far before a string that is looked for: a line may hold a table of a million strings."""
_OFFERED = re.compile(rb"^__all__[ \t]*\+?=[ \t]*([\[(][^\])]*)", re.MULTILINE)
_DEFINED = re.compile(rb"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_ALIAS = re.compile(rb"(?<![\w.])([\w.]+)[ \t]+as[ \t]+(\w+)")
_MAIN = re.compile(rb"if\b.*\b__name__\b")
_DOES = re.compile(
    rb"(?:async[ \t]+)?(?:for|while|with)\b|[A-Za-z_][\w.]*\(|raise[ \t]+SystemExit|\[.*\bfor\b"
    rb"|(?:[A-Za-z_][\w., ]*=[ \t]*)(?:[\w.]*\.)?(?:train|main|fit|run|launch|evaluate|validate|submit|start|execute"
    rb"|optimi[sz]e|learn|search)\w*\("
)
_MAY_RUN = re.compile(rb"(?:try|if)\b(?!.*\bTYPE_CHECKING\b)")
"""What may hold a call of a script."""
_SETS_UP = re.compile(
    rb"(?:sys(?!\.exit)|os|warnings|logging|logger|matplotlib|mpl|random|gc|print"
    rb"|torch\.(?:manual_seed|set_\w+|backends|cuda"
    rb"|multiprocessing\.set_\w+)|(?:np|numpy)\.(?:random\.seed|set_\w+|seterr)|plt\.(?:switch_backend|style|rc\w*)|cv2)\b"
)
"""Calls in the body of a module that prepare what is imported, and run nothing."""
_KEEPS_TO_ITSELF = re.compile(
    rb"@(?:\w+\.)*(?:property|cached_property|staticmethod|classmethod|setter|getter|no_grad|inference_mode"
    rb"|enable_grad|abstractmethod|contextmanager|wraps|lru_cache|cache|dataclass|total_ordering|overload|override|jit"
    rb"|script|ignore|unused|export|njit|autocast|custom_fwd|custom_bwd|profile|timeit|typechecked|deprecated)\b"
)
"""Decorators that hand a definition to nobody."""
_TRIES = re.compile(rb"\b(?:backward|step|parse_args|argv|main|train|fit|run|load_state_dict|fire|hydra|open|save)\b")
"""Words of a program that does something; without any, a ``__main__`` part that makes its inputs up, or uses nothing,
only tries what the file defines."""
_MADE_UP = re.compile(rb"randn|rand|randint|ones|zeros|arange|\w*Tensor|summary")


@dataclass(slots=True)
class Definition:
    """A function or class at the top of a file, or a method."""

    name: bytes
    words: set[bytes] = field(default_factory=set)
    """Of a class at the top of a file: of what stands in it beside methods."""
    bases: set[bytes] = field(default_factory=set)
    methods: list[Definition] = field(default_factory=list)
    is_class: bool = False
    is_handed_on: bool = False
    """A decorator may hand it to somebody."""


@dataclass(slots=True)
class Outline:
    """A file in rough: its definitions, and the words of what runs when it is imported, and when it is run."""

    definitions: list[Definition] = field(default_factory=list)
    words: set[bytes] = field(default_factory=set)
    main_words: set[bytes] | None = None
    aliases: list[tuple[bytes, bytes]] = field(default_factory=list)
    imported: set[bytes] = field(default_factory=set)
    imports_all: bool = False
    runs: bool = False
    """Whether its body does more than define and set up."""

    @property
    def tries_itself(self) -> bool:
        """Whether its ``__main__`` part only tries what it defines."""
        words = self.main_words
        if self.runs or words is None or any(map(_TRIES.fullmatch, words)):
            return False
        known = self.imported | {definition.name for definition in self.definitions}
        return any(map(_MADE_UP.fullmatch, words)) or not (words & known or self.imports_all)


def _bare(source: bytes) -> bytes:
    """Without comments and strings: documentation, code that was put out of use, texts that say ``train``. Those stay,
    on one line, that hold code (f-strings) or name an attribute (``getattr(module, "train")``)."""

    def kept(match: re.Match[bytes]) -> bytes:
        text, at = match[0], match.start()
        if text[:1] in b"#\\":
            return b" "
        if len(text) < 2 or text[-1] != text[0]:
            return text  # it does not end
        line = source[max(at - _MAX_BEFORE, source.rfind(b"\n", max(at - _MAX_BEFORE, 0), at) + 1) : at]
        return text.replace(b"\n", b" ") if _HOLDS_CODE.search(line) else b"0"

    return _NOT_CODE.sub(kept, source)


def _regions(text: bytes) -> Iterator[list[bytes]]:
    """The statements of a block with all that is indented below them; decorators stand with what they decorate."""
    region: list[bytes] = []
    is_decorated = False
    for line in text.split(b"\n"):
        if not line.strip():
            continue
        if region and (line[:1] in b" \t)]}" or is_decorated):
            region.append(line)
            is_decorated = is_decorated and not _DEFINED.match(line)
            continue
        if region:
            yield region
        region = [line]
        is_decorated = line.startswith(b"@")
    if region:
        yield region


def outline(source: bytes) -> Outline:
    """A file in rough."""
    found = Outline()
    for names in _OFFERED.findall(source):
        found.words |= set(_WORD.findall(names))
    for region in _regions(_bare(source.replace(b"\r\n", b"\n"))):
        first, text = region[0], b"\n".join(region)
        if first.startswith(b"@") or _DEFINED.match(first):
            found.definitions.append(_definition(region))
        elif first.startswith((b"import ", b"from ")):
            found.imported |= set(_WORD.findall(text))
            found.imports_all |= b"*" in text
            found.aliases += [(alias, name.rpartition(b".")[2]) for name, alias in _ALIAS.findall(text)]
        elif _MAIN.match(first):
            found.main_words = (found.main_words or set()) | set(_WORD.findall(text))
        else:
            found.words |= set(_WORD.findall(text))
            said = [first, first.partition(b":")[2].strip(), *(line.strip() for line in region[1:])]
            said = said if _MAY_RUN.match(first) else [first]
            found.runs |= any(_DOES.match(line) and not _SETS_UP.match(line) for line in said)
    return found


def _definition(region: list[bytes], *, is_inner: bool = False) -> Definition:
    at = next((index for index, line in enumerate(region) if _DEFINED.match(line)), len(region) - 1)
    match = _DEFINED.match(region[at])
    made = Definition(match[1] if match else b"")
    decorators = [line for line in region[:at] if line.startswith(b"@")]
    made.is_handed_on = not all(map(_KEEPS_TO_ITSELF.match, decorators))
    made.words = set(_WORD.findall(b"\n".join(region[:at])))
    made.is_class = region[at].startswith(b"class")
    if is_inner or not made.is_class:
        made.words |= set(_WORD.findall(b"\n".join(region[at:])))
        return made
    head, body = _head(region[at:])
    made.bases = set(_WORD.findall(head.partition(b"(")[2]))
    made.words |= made.bases
    depth = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    for inner in _regions(b"\n".join(line[depth:] if not line[:depth].strip() else line for line in body)):
        if inner[0].startswith(b"@") or _DEFINED.match(inner[0]):
            made.methods.append(_definition(inner, is_inner=True))
        else:
            made.words |= set(_WORD.findall(b"\n".join(inner)))
    return made


def _head(lines: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The line that opens a block, over as many lines as its brackets take, and the rest."""
    num_open = 0
    for end, line in enumerate(lines, 1):
        num_open += line.count(b"(") - line.count(b")")
        if num_open <= 0:
            text = b" ".join(lines[:end])
            first, colon, rest = text.partition(b"):") if b"(" in text else text.partition(b":")
            return first + colon, [*([b"    " + rest.strip()] if rest.strip() else []), *lines[end:]]
    return lines[0], lines[1:]
