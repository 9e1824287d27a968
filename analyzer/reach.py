"""Code that nothing in the tree reaches: a definition whose name stands nowhere else, a file that nobody imports.

What is said of such code is true of its text, and harms nobody as the project is run. Only a tree that shows a program
(a ``__main__`` guard, a notebook, a script's body) shows who is called; what is installed for others is called by them,
and where names are looked up by strings that are made when the program runs, any name may be meant that some text or
configuration of the tree holds, or may be put together of. A string that is written down and names a module of the tree
(``"package.module:function"``) names what is in it, also in the files that say how the tree is installed.

The question is answered from words, not from calls: a definition is reached where code that is reached itself holds its
name as a word, whatever it means there. That errs to the side of what is used.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from analyzer.callers import called_by, is_served, offered
from analyzer.programs import code, is_python, scripts, text
from analyzer.programs import texts as texts_of
from analyzer.unit_tests import is_file_of_tests

MAX_FILES = 1500
"""A tree with more Python files is not asked: its words would cost more than they tell."""
NO_CALL, NO_IMPORT = "no call", "no import"

_PARTS = re.compile(
    rb"\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"(?:\\[\s\S]|[^\"\\\n])*\"?|'(?:\\[\s\S]|[^'\\\n])*'?|#[^\n]*|\\\r?\n"
)
"""Strings, comments, joined lines. A string that does not end is one to the end of its line: else it would be looked
for again from each of its characters."""
_WORD = re.compile(rb"[A-Za-z_]\w*\b(?![ \t]*=(?!=))")
"""Words that are read: ``train=True`` and ``train = 1`` use no function of that name."""
_HOLDS_CODE = re.compile(rb"(?:\b[rR]?[fF][rR]?|\b(?:getattr|hasattr|attrgetter|methodcaller)\([^()]*)$")
"""What stands on the line before a string that holds code, or a name that is looked up."""
_NEAR = 400
"""How far before a string that is looked for: a line may hold a table of a million strings."""
_OFFERED = re.compile(rb"^__all__[ \t]*\+?=[ \t]*([\[(][^\])]*)", re.MULTILINE)
_DEFINED = re.compile(rb"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_ALIAS = re.compile(rb"(?<![\w.])([\w.]+)[ \t]+as[ \t]+(\w+)")
_MAIN = re.compile(rb"if\b.*\b__name__\b")
_RUNS = re.compile(
    rb"(?:async[ \t]+)?(?:for|while|with)\b|[A-Za-z_][\w.]*\(|raise[ \t]+SystemExit|\[.*\bfor\b"
    rb"|(?:[A-Za-z_][\w., ]*=[ \t]*)(?:[\w.]*\.)?(?:train|main|fit|run|launch|evaluate|validate|submit|start|execute"
    rb"|optimi[sz]e|learn|search)\w*\("
)
_ASKS = re.compile(rb"(?:try|if)\b(?!.*\bTYPE_CHECKING\b)")
"""What may hold a call of a script."""
_SETS_UP = re.compile(
    rb"(?:sys(?!\.exit)|os|warnings|logging|logger|matplotlib|mpl|random|gc|print"
    rb"|torch\.(?:manual_seed|set_\w+|backends|cuda"
    rb"|multiprocessing\.set_\w+)|(?:np|numpy)\.(?:random\.seed|set_\w+|seterr)|plt\.(?:switch_backend|style|rc\w*)|cv2)\b"
)
"""Calls in the body of a module that prepare what is imported, and run nothing."""
_LOADS_BY_NAME = re.compile(
    rb"\b(?:import_module|__import__|iter_modules|walk_packages|exec_module|spec_from_file_location|run_module|run_path"
    rb"|execfile|load_source|instantiate|locate|get_class|get_method|_target_|LightningCLI|import_from_string"
    rb"|import_string|load_object|pydoc|hubconf|resolve_name|SourceFileLoader|_LazyModule|lazy_loader)\b"
    rb"|\bhydra\.utils\.call\b|\bfrom[ \t]+hydra(?:\.utils)?[ \t]+import\b[^\n]{0,400}\b(?:call|utils)\b"
)
_SPOKEN = re.compile(
    rb"[\"'][ \t]*(?:[\w.-]{1,80}[ \t]*=[ \t]*)?([A-Za-z_]\w{0,80}(?:[.:]\w{1,80}){1,12})[ \t]*"
    rb"(?:\[[\w, ]{0,80}\])?[\"']"
)
"""A string that may name a module, or what is in one: ``"package.module"``, ``"name = package.module:function"``."""
_POINTED = re.compile(rb"=[ \t]*[\"']?([A-Za-z_][\w.]{0,200}:\w{1,80})")
"""An entry point of ``setup.cfg``."""
_LOOKS_UP = re.compile(
    rb"\bgetattr\(\s*([\w.]*)[^,'\"]{0,400},\s*(?![\"'][^\"'{%]*[\"']\s*[,)])|\bvars\(\s*([\w.]*)"
    rb"|\b(?:globals|locals)\(\)|(?<![\w.])(?:eval|exec)\(|\bgetmembers\("
)
_FIELDS_OF = re.compile(rb"(?<![\w.])([\w.]{1,200})()\.__dict__\b")
_LOOKING_UP = (b"getattr(", b"vars(", b"globals()", b"locals()", b"exec(", b"getmembers(")
"""One of these or ``eval(`` stands in what `_LOOKS_UP` finds."""
_SETTINGS = frozenset(
    {b"args", b"arg", b"opt", b"opts", b"cfg", b"config", b"hparams", b"params", b"options", b"flags"}
)
"""What people call settings: no module or class of theirs is looked up in them."""
_HUSHED = re.compile(
    rb"@(?:\w+\.)*(?:property|cached_property|staticmethod|classmethod|setter|getter|no_grad|inference_mode"
    rb"|enable_grad|abstractmethod|contextmanager|wraps|lru_cache|cache|dataclass|total_ordering|overload|override|jit"
    rb"|script|ignore|unused|export|njit|autocast|custom_fwd|custom_bwd|profile|timeit|typechecked|deprecated)\b"
)
"""Decorators that hand a definition to nobody."""
_PLAIN_BASES = frozenset({b"object", b"Module", b"ABC", b"ModuleList", b"Sequential"})
_COLLECTS = re.compile(rb"\b(?:__init_subclass__|__subclasses__|metaclass[ \t]*=[ \t]*(?!\w*\.?ABCMeta))")
_TRIES = re.compile(rb"\b(?:backward|step|parse_args|argv|main|train|fit|run|load_state_dict|fire|hydra|open|save)\b")
"""Words of a program that does something; without any, a ``__main__`` part that makes its inputs up, or uses nothing,
only tries what the file defines."""
_MADE_UP = re.compile(rb"randn|rand|randint|ones|zeros|arange|\w*Tensor|summary")
_BUILDS = re.compile(r"(?:.*/)?(?:conftest|setup|conf|noxfile)\.py")
_NAME = re.compile(rb"[A-Za-z_]\w*")
_DEFINED_ANYWHERE = re.compile(rb"\b(?:def|class)[ \t]+(\w+)")
_PIECES = re.compile(rb"(?<=_)(?=[A-Za-z0-9])|(?<=[a-z0-9])(?=_)|(?<=[a-z0-9])(?=[A-Z])")
"""Where a name that is put together may be cut."""
_RUN = re.compile(rb"%run[ \t]+(?:-\w[ \t]+)*[\"']?([\w./-]+)")
_INSTALLERS = ("setup.py", "setup.cfg", "pyproject.toml")
_INSTALLS = re.compile(rb"^\[(?:project|tool\.poetry|build-system)\]", re.MULTILINE)

Imports = Callable[[bytes], Iterable[tuple[str, int]]]
Resolve = Callable[[str, str, int], "str | None"]


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
        line = source[max(at - _NEAR, source.rfind(b"\n", max(at - _NEAR, 0), at) + 1) : at]
        return text.replace(b"\n", b" ") if _HOLDS_CODE.search(line) else b"0"

    return _PARTS.sub(kept, source)


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
            said = said if _ASKS.match(first) else [first]
            found.runs |= any(_RUNS.match(line) and not _SETS_UP.match(line) for line in said)
    return found


def _definition(region: list[bytes], *, is_inner: bool = False) -> Definition:
    at = next((index for index, line in enumerate(region) if _DEFINED.match(line)), len(region) - 1)
    match = _DEFINED.match(region[at])
    made = Definition(match[1] if match else b"")
    decorators = [line for line in region[:at] if line.startswith(b"@")]
    made.is_handed_on = not all(map(_HUSHED.match, decorators))
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


class Reach:
    """What the programs of one tree reach."""

    def __init__(
        self, paths: Collection[str], read: Callable[[str], bytes | None], imports: Imports, resolve: Resolve
    ) -> None:
        self._paths, self._read, self._imports, self._resolve = frozenset(paths), read, imports, resolve
        self._python = sorted(filter(is_python, paths))
        self._code = [*self._python, *scripts(paths)]
        self._by_name: dict[str, list[str]] = {}
        """The files by the last word of the modules that they are."""
        self._outlines: dict[str, Outline] = {}
        self._at_home: dict[str, set[tuple[bytes, ...]]] = {}
        """What the files that are run do not reach themselves."""
        self._tests: dict[str, bool] = {}
        self._dead: dict[str, set[tuple[bytes, ...]]] | None = None
        self._alone: set[str] = set()
        self._linked: set[str] = set()
        self._texts: dict[str, bytes] = {}
        """Of a tree that looks names up: a name may be put together."""
        self._stems = {part for path in self._code for part in path.removesuffix(".py").split("/")}
        self._parts: dict[str, str] | None = None
        self._sizes: Counter[str] = Counter()

    def why_not(self, path: str, names: tuple[str, ...]) -> str | None:
        """Why nothing reaches a definition (`NO_CALL`, `NO_IMPORT`); None where something may."""
        if not 1 < len(self._python) <= MAX_FILES or self._is_test(path) or self._is_public(path, names):
            return None
        wanted = tuple(name.encode() for name in names)
        if self._is_reached_at_home(path, wanted):
            return None
        dead = self._unreached()
        if path in self._alone:
            return NO_IMPORT
        if wanted not in dead.get(path, ()) and wanted[:1] not in dead.get(path, ()):
            return None
        return None if self._texts and self._may_be_put_together(wanted[0]) else NO_CALL

    def is_linked(self, path: str) -> bool:
        """Whether a file imports another one of a tree that shows a program, or is imported."""
        if not 1 < len(self._python) <= MAX_FILES:
            return False
        self._unreached()
        return path in self._linked

    def are_apart(self, path: str, other: str) -> bool:
        """Whether two files are of different programs: imports, in whatever direction and through whatever files, never
        lead from one to the other. Nothing is concluded where modules are loaded by strings made at run time."""
        parts = self._known_parts()
        return path in parts and other in parts and parts[path] != parts[other]

    def is_by_itself(self, path: str) -> bool:
        """Whether a file that runs nothing stands in a folder of files that have nothing to do with any other: each is
        an excerpt, whose callers are nowhere, and not a program with a part that is not used."""
        parts, folder = self._known_parts(), posixpath.dirname(path)
        if path not in parts or self._is_entry(path):
            return False
        if not self._sizes:
            self._sizes = Counter(parts.values())
        return all(self._sizes[parts[each]] == 1 for each in parts if posixpath.dirname(each) == folder)

    def _known_parts(self) -> dict[str, str]:
        if self._parts is None:
            self._parts = self._split() if 1 < len(self._python) <= MAX_FILES else {}
        return self._parts

    def _split(self) -> dict[str, str]:
        """A file of each program that a file belongs to, however they are imported: the same one for all of it."""
        sources = {path: self._text(path) for path in self._code}
        if any(source is None or _LOADS_BY_NAME.search(source) for source in sources.values()):
            return {}
        parts = {path: path for path in self._code}

        def first(path: str) -> str:
            while parts[path] != path:
                parts[path] = path = parts[parts[path]]
            return path

        for path, source in sources.items():
            for other in self._leads(path, source or b"") | self._under_own_name(source or b""):
                if other in parts:
                    parts[first(other)] = first(path)
        return {path: first(path) for path in self._code}

    def _under_own_name(self, source: bytes) -> set[str]:
        """The files that imports mean where the tree is a package itself, known by the name of its folder."""
        found: set[str] = set()
        for module, level in self._imports(source):
            first, *rest = module.split(".")
            if not level and rest and first != "torch":
                stems = ("/".join(rest[:end]) for end in range(1, len(rest) + 1))
                found.update(path for stem in stems for path in (f"{stem}.py", f"{stem}/__init__.py"))
        return found & self._paths

    # --- one file -----------------------------------------------------------------------------------------------------

    def _text(self, path: str) -> bytes | None:
        return code(path, self._read(path))

    def _outline(self, path: str) -> Outline:
        if path not in self._outlines:
            self._outlines[path] = outline(self._text(path) or b"")
        return self._outlines[path]

    def _is_entry(self, path: str) -> bool:
        if self._is_test(path):
            return False
        known = self._outline(path)
        is_main = known.main_words is not None and not known.tries_itself
        is_registered = any(definition.is_handed_on for definition in known.definitions)
        return path.endswith(".ipynb") or known.runs or is_main or is_registered or self._is_served(path)

    def _is_served(self, path: str) -> bool:
        """Whether a tool calls what a file defines."""
        return is_served(path, self._text(path) or b"")

    def _is_test(self, path: str) -> bool:
        """Whether a file serves tests, the installation or documents: what it calls is not used by that."""
        if path not in self._tests:
            is_test = is_file_of_tests(path, self._text(path) or b"")
            self._tests[path] = is_test or bool(_BUILDS.fullmatch(path))
        return self._tests[path]

    def _is_reached_at_home(self, path: str, names: tuple[bytes, ...]) -> bool:
        """Whether a file that is run names it: then no other file needs to be read."""
        known = self._outline(path)
        if not self._is_entry(path):
            return False
        if path not in self._at_home:
            live = _Live(collects=False, called=called_by(known.imported))
            live.enter(known)
            live.offer(offered(self._text(path) or b""), known, {path: known})
            live.spread()
            self._at_home[path] = live.dead(known)
        return not any(names[:end] in self._at_home[path] for end in range(1, len(names) + 1))

    def _is_public(self, path: str, names: tuple[str, ...]) -> bool:
        """Whether it belongs to a package that is installed for others, under a name that is theirs to use."""
        folder = posixpath.dirname(path)
        if any(name.startswith("_") and not name.startswith("__") for name in names) or not self._is_installed(folder):
            return False
        return f"{folder}/__init__.py".lstrip("/") in self._paths or folder == "src" or folder.endswith("/src")

    def _is_installed(self, folder: str) -> bool:
        while True:
            for name in _INSTALLERS:
                path = f"{folder}/{name}".lstrip("/")
                if path in self._paths and (name != "pyproject.toml" or self._installs(path)):
                    return True
            if not folder:
                return False
            folder = posixpath.dirname(folder)

    def _installs(self, path: str) -> bool:
        source = self._read(path)
        return source is None or bool(_INSTALLS.search(source))

    # --- the tree -----------------------------------------------------------------------------------------------------

    def _unreached(self) -> dict[str, set[tuple[bytes, ...]]]:
        """The definitions of each file that nothing reaches."""
        if self._dead is None:
            self._dead = self._found()
            self._outlines.clear()
        return self._dead

    def _found(self) -> dict[str, set[tuple[bytes, ...]]]:
        sources = {path: self._text(path) for path in self._code}
        entries = [path for path in self._code if sources[path] is not None and self._is_entry(path)]
        if not entries or None in sources.values():
            return {}
        texts = {path: source for path, source in sources.items() if source is not None}
        strings = {path: list(self._strings(path, source, _SPOKEN)) for path, source in texts.items()}
        leads = {path: self._leads(path, texts[path]) | {home for home, _ in strings[path]} for path in texts}
        pointed = list(self._pointed())
        entries += [home for home, _ in pointed if home in texts]
        imported = {other for path, others in leads.items() for other in others if not self._is_test(path)}
        self._linked = {path for path in texts if leads[path] or path in imported}
        reached = self._reached(entries, leads)
        by_name = any(_LOADS_BY_NAME.search(text) for text in texts.values())
        if not by_name:
            homes = {posixpath.dirname(path) for path in imported}
            apart = set(texts) - reached
            apart = {path for path in apart if not self._is_public(path, ())}
            self._alone = {path for path in apart if leads[path] or posixpath.dirname(path) in homes}
        public = {path for path in texts if self._is_public(path, ()) and not self._is_test(path)}
        mine = sorted(reached | public) if not by_name else [path for path in texts if not self._is_test(path)]
        live = self._live(texts, mine)
        for _, names in (*pointed, *(each for path in mine for each in strings[path])):
            live.say(names)
        opened = {path for path in mine if self._is_served(path)}
        opened |= {other for path in mine for other in self._opened(path, texts[path], leads)}
        live.open(definition for path in opened for definition in self._outline(path).definitions)
        for path in mine:
            around = {path, *leads[path], *(far for near in leads[path] if _is_package(near) for far in leads[near])}
            live.offer(offered(texts[path]), self._outline(path), {each: self._outline(each) for each in around})
        for path in public:
            theirs = (each for each in self._outline(path).definitions if not each.name.startswith(b"_"))
            live.open(theirs)  # others call it
        if by_name:
            self._texts = texts
            spoken = self._spoken(texts)
            everything = (definition for path in texts for definition in self._outline(path).definitions)
            live.open(definition for definition in everything if definition.name in spoken)
        live.spread()
        return {path: live.dead(self._outline(path)) for path in mine if path in self._linked}

    def _spoken(self, texts: dict[str, bytes]) -> set[bytes]:
        """The words that stand somewhere besides a definition of them: in code, in a string, in a configuration."""
        named: Counter[bytes] = Counter()
        for source in texts.values():
            named.update(_NAME.findall(source))
            named.subtract(_DEFINED_ANYWHERE.findall(source))
        found = {word for word, number in named.items() if number > 0}
        return found.union(*(_NAME.findall(text(self._read(path))) for path in texts_of(self._paths)))

    def _may_be_put_together(self, name: bytes) -> bool:
        """Whether a text holds a beginning or an end of a name beside a quote or a brace: ``f"{kind}Trainer"``,
        ``"build_" + kind``."""
        ends = [match.start() for match in _PIECES.finditer(name)]
        pieces = [name[:at] + mark for at in ends for mark in (b"{", b'"', b"'", b"%")]
        pieces += [mark + name[at:] for at in ends for mark in (b"}", b'"', b"'", b"%s")]
        return any(piece in source for source in self._texts.values() for piece in pieces)

    def _live(self, texts: Mapping[str, bytes], mine: Iterable[str]) -> _Live:
        """What the files that are run or imported say, still without what it reaches."""
        outlines = {path: self._outline(path) for path in mine}
        imported: set[bytes] = set().union(*(known.imported for known in outlines.values()))
        live = _Live(collects=any(map(_COLLECTS.search, texts.values())), called=called_by(imported))
        for known in outlines.values():
            live.enter(known, with_main=not known.tries_itself)
        return live

    def _pointed(self) -> Iterator[tuple[str, list[bytes]]]:
        """The entry points of the tree: the file, and the names of what is called in it."""
        for path in sorted(self._paths):
            name = path.rpartition("/")[2]
            if name in _INSTALLERS:
                yield from self._strings(path, self._read(path) or b"", _POINTED if name == "setup.cfg" else _SPOKEN)

    def _strings(self, path: str, source: bytes, pattern: re.Pattern[bytes]) -> Iterator[tuple[str, list[bytes]]]:
        """The files that strings name, and the names in them."""
        for said in dict.fromkeys(pattern.findall(source)):
            parts = re.split(r"[.:]", said.decode())
            if parts[0] not in self._stems or parts[-1] == "py":
                continue
            for end in range(len(parts), 0, -1):
                home = self._resolve(".".join(parts[:end]), path, 0)
                if home is not None and home != path:
                    yield home, [part.encode() for part in parts[end:]]
                    break

    def _leads(self, path: str, source: bytes) -> set[str]:
        """The files that a file imports; where an import leads nowhere, those that it may mean."""
        found: set[str] = set()
        for module, level in self._imports(source):
            parts = module.split(".")
            homes = [self._resolve(".".join(parts[:end]), path, level) for end in range(1, len(parts) + 1)]
            found.update(home for home in homes if home is not None)
            if not level and not any(homes):
                found |= self._named("/".join(parts)) | self._named("/".join(parts[:-1]))
        for stem in (match.decode() for match in _RUN.findall(source)):
            found |= self._named(posixpath.normpath(stem).removesuffix(".py").lstrip("./"))
        return found - {path}

    def _named(self, stem: str) -> set[str]:
        ends = (f"/{stem}.py", f"/{stem}/__init__.py")
        if not self._by_name:
            for path in self._python:
                *_, folder, name = ("", "", *path.split("/"))
                for end in {name.removesuffix(".py"), folder if name == "__init__.py" else ""}:
                    self._by_name.setdefault(end, []).append(path)
        near = self._by_name.get(stem.rpartition("/")[2], ()) if stem else ()
        return {path for path in near if f"/{path}".endswith(ends)}

    def _reached(self, entries: Iterable[str], leads: dict[str, set[str]]) -> set[str]:
        found: set[str] = set()
        todo = list(entries)
        while todo:
            path = todo.pop()
            if path not in found:
                found.add(path)
                todo += leads.get(path, ())
        return found

    def _opened(self, path: str, source: bytes, leads: dict[str, set[str]]) -> Iterator[str]:
        """The files in which names are looked up that are made when the program runs."""
        fields = _FIELDS_OF.finditer(source) if b".__dict__" in source else ()  # a dear pattern for what is rare
        is_asked = any(word in source for word in _LOOKING_UP) or source.count(b"eval(") > source.count(b".eval(")
        for match in (*(_LOOKS_UP.finditer(source) if is_asked else ()), *fields):
            head = (match[1] or match[2] or b"").split(b".")[0]
            is_of_held = match.re is _LOOKS_UP and match[1]  # ``getattr``, of what a variable holds as well
            if head in _SETTINGS or (head and not is_of_held and head not in self._outline(path).imported):
                continue
            yield path
            if head not in (b"self", b"cls"):
                for other in leads[path]:
                    yield other
                    yield from leads[other] if _is_package(other) else ()


def _is_package(path: str) -> bool:
    return path.endswith("__init__.py")


class _Live:
    """The words of what is reached, and what they reach."""

    def __init__(self, *, collects: bool, called: Collection[bytes]) -> None:
        self.words: set[bytes] = set()
        self.collects = collects
        """Classes may be found through the classes that they inherit from."""
        self.called = called
        """The methods that are called although no code of the tree names them."""
        self._fresh: list[bytes] = []
        """The words that were not followed so far."""
        self._waiting: dict[bytes, list[Definition]] = {}
        """By the word that reaches them."""
        self._aliases: dict[bytes, list[bytes]] = {}
        self._reached: set[int] = set()

    def enter(self, known: Outline, *, with_main: bool = True) -> None:
        """A file that is run or imported."""
        self.say(known.words | (known.main_words or set() if with_main else set()))
        for alias, name in known.aliases:
            self._aliases.setdefault(alias, []).append(name)
        for definition in known.definitions:
            is_collected = self.collects and definition.is_class and bool(definition.bases)
            self._wait(definition, is_reached=is_collected or definition.is_handed_on)

    def say(self, words: Iterable[bytes]) -> None:
        """Words that are read."""
        fresh = set(words) - self.words
        self.words |= fresh
        self._fresh += fresh

    def offer(self, calls: Iterable[frozenset[bytes]], known: Outline, around: Mapping[str, Outline]) -> None:
        """Definitions that a command line is made of, by the words in the call that makes it; `around` are the file
        itself and those that it imports, by their paths."""
        for words in calls:
            if not words:
                self.open(known.definitions)
                self.say(known.imported)
            names = words | {name for alias, name in known.aliases if alias in words}
            for path, other in around.items():
                stem = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
                is_whole = other is not known and stem.encode() in names
                self.open(each for each in other.definitions if is_whole or each.name in names)

    def open(self, definitions: Iterable[Definition]) -> None:
        """Definitions that may be found by their names."""
        for definition in definitions:
            for each in (definition, *definition.methods):
                self._reach(each)

    def spread(self) -> None:
        """Follow the words until there are no new ones."""
        while self._fresh:
            word = self._fresh.pop()
            self.say(self._aliases.get(word, ()))
            for definition in self._waiting.pop(word, ()):
                self._reach(definition)

    def dead(self, known: Outline) -> set[tuple[bytes, ...]]:
        """The definitions of a file that are not reached, by name and by class and method."""
        found: set[tuple[bytes, ...]] = set()
        live: set[tuple[bytes, ...]] = set()
        for definition in known.definitions:
            (live if id(definition) in self._reached else found).add((definition.name,))
            for method in definition.methods:
                (live if id(method) in self._reached else found).add((definition.name, method.name))
        return found - live

    def _wait(self, definition: Definition, *, is_reached: bool) -> None:
        if is_reached or definition.name in self.words:
            self._reach(definition)
        else:
            self._waiting.setdefault(definition.name, []).append(definition)

    def _reach(self, definition: Definition) -> None:
        if id(definition) in self._reached:
            return
        self._reached.add(id(definition))
        self.say(definition.words - {definition.name})
        is_plain = definition.bases - {b"nn", b"torch", b"abc"} <= _PLAIN_BASES
        for method in definition.methods:
            is_called = method.name in self.called or method.name.startswith(b"__")
            self._wait(method, is_reached=not is_plain or is_called or method.is_handed_on or method.is_class)
