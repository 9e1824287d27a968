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

from analyzer.callers import called_by, is_served, offered
from analyzer.leads import Imports, Leads, Resolve, followed, is_package, loads_by_name
from analyzer.liveness import Live
from analyzer.outline import Outline, outline
from analyzer.programs import INSTALLERS, text, texts
from analyzer.unit_tests import is_file_of_tests

MAX_FILES = 1500
"""A tree with more Python files is not asked: its words would cost more than they tell."""
NO_CALL, NO_IMPORT = "no call", "no import"

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
_COLLECTS = re.compile(rb"\b(?:__init_subclass__|__subclasses__|metaclass[ \t]*=[ \t]*(?!\w*\.?ABCMeta))")
_BUILDS = re.compile(r"(?:.*/)?(?:conftest|setup|conf|noxfile)\.py")
_NAME = re.compile(rb"[A-Za-z_]\w*")
_DEFINED_ANYWHERE = re.compile(rb"\b(?:def|class)[ \t]+(\w+)")
_PIECES = re.compile(rb"(?<=_)(?=[A-Za-z0-9])|(?<=[a-z0-9])(?=_)|(?<=[a-z0-9])(?=[A-Z])")
"""Where a name that is put together may be cut."""
_INSTALLS = re.compile(rb"^\[(?:project|tool\.poetry|build-system)\]", re.MULTILINE)


class Reach:
    """What the programs of one tree reach."""

    def __init__(
        self,
        paths: Collection[str],
        read: Callable[[str], bytes | None],
        imports: Imports,
        resolve: Resolve,
        *,
        has_all_texts: bool = True,
    ) -> None:
        self._has_all_texts = has_all_texts
        self._leads = Leads(paths, read, imports, resolve)
        self._is_asked = 1 < len(self._leads.python) <= MAX_FILES
        self._outlines: dict[str, Outline] = {}
        self._at_home: dict[str, set[tuple[bytes, ...]]] = {}
        """What the files that are run do not reach themselves."""
        self._tests: dict[str, bool] = {}
        self._dead: dict[str, set[tuple[bytes, ...]]] | None = None
        self._alone: set[str] = set()
        self._linked: set[str] = set()
        self._looks_up: list[bytes] = []
        """The code of a tree that looks names up: a name may be put together there."""
        self._programs: dict[str, str] | None = None
        self._num_files: Counter[str] = Counter()
        """Of each program."""

    def why_not(self, path: str, names: tuple[str, ...]) -> str | None:
        """Why nothing reaches a definition (`NO_CALL`, `NO_IMPORT`); None where something may."""
        if not self._is_asked or self._is_test(path) or self._is_public(path, names):
            return None
        wanted = tuple(name.encode() for name in names)
        if self._is_reached_at_home(path, wanted):
            return None
        dead = self._unreached()
        if self._looks_up and not self._has_all_texts:
            return None  # a text that was not read may hold the name
        if path in self._alone:
            return NO_IMPORT
        if wanted not in dead.get(path, ()) and wanted[:1] not in dead.get(path, ()):
            return None
        return None if self._may_be_put_together(wanted[0]) else NO_CALL

    def is_linked(self, path: str) -> bool:
        """Whether a file imports another one of a tree that shows a program, or is imported."""
        if not self._is_asked:
            return False
        self._unreached()
        return path in self._linked

    def are_apart(self, path: str, other: str) -> bool:
        """Whether two files are of different programs: imports, in whatever direction and through whatever files, never
        lead from one to the other. Nothing is concluded where modules are loaded by strings made at run time."""
        programs = self._known_programs()
        return path in programs and other in programs and programs[path] != programs[other]

    def is_by_itself(self, path: str) -> bool:
        """Whether a file that runs nothing stands in a folder of files that have nothing to do with any other: each is
        an excerpt, whose callers are nowhere, and not a program with a part that is not used."""
        programs, folder = self._known_programs(), posixpath.dirname(path)
        if path not in programs or self._is_entry(path):
            return False
        if not self._num_files:
            self._num_files = Counter(programs.values())
        return all(self._num_files[programs[each]] == 1 for each in programs if posixpath.dirname(each) == folder)

    def _known_programs(self) -> dict[str, str]:
        if self._programs is None:
            self._programs = self._leads.programs() if self._is_asked else {}
        return self._programs

    # --- one file -----------------------------------------------------------------------------------------------------

    def _outline(self, path: str) -> Outline:
        if path not in self._outlines:
            self._outlines[path] = outline(self._leads.text(path) or b"")
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
        return is_served(path, self._leads.text(path) or b"")

    def _is_test(self, path: str) -> bool:
        """Whether a file serves tests, the installation or documents: what it calls is not used by that."""
        if path not in self._tests:
            is_test = is_file_of_tests(path, self._leads.text(path) or b"")
            self._tests[path] = is_test or bool(_BUILDS.fullmatch(path))
        return self._tests[path]

    def _is_reached_at_home(self, path: str, names: tuple[bytes, ...]) -> bool:
        """Whether a file that is run names it: then no other file needs to be read."""
        known = self._outline(path)
        if not self._is_entry(path):
            return False
        if path not in self._at_home:
            live = Live(collects=False, called=called_by(known.imported))
            live.enter(known)
            live.offer(offered(self._leads.text(path) or b""), known, {path: known})
            live.spread()
            self._at_home[path] = live.dead(known)
        return not any(names[:end] in self._at_home[path] for end in range(1, len(names) + 1))

    def _is_public(self, path: str, names: tuple[str, ...]) -> bool:
        """Whether it belongs to a package that is installed for others, under a name that is theirs to use."""
        folder = posixpath.dirname(path)
        if any(name.startswith("_") and not name.startswith("__") for name in names) or not self._is_installed(folder):
            return False
        return f"{folder}/__init__.py".lstrip("/") in self._leads.paths or folder == "src" or folder.endswith("/src")

    def _is_installed(self, folder: str) -> bool:
        while True:
            for name in INSTALLERS:
                path = f"{folder}/{name}".lstrip("/")
                if path in self._leads.paths and (name != "pyproject.toml" or self._installs(path)):
                    return True
            if not folder:
                return False
            folder = posixpath.dirname(folder)

    def _installs(self, path: str) -> bool:
        source = self._leads.read(path)
        return source is None or bool(_INSTALLS.search(source))

    # --- the tree -----------------------------------------------------------------------------------------------------

    def _unreached(self) -> dict[str, set[tuple[bytes, ...]]]:
        """The definitions of each file that nothing reaches."""
        if self._dead is None:
            self._dead = self._look_through()
            self._outlines.clear()
        return self._dead

    def _look_through(self) -> dict[str, set[tuple[bytes, ...]]]:
        """The same, and which files are linked and alone."""
        codes = {path: self._leads.text(path) for path in self._leads.code}
        entries = [path for path, source in codes.items() if source is not None and self._is_entry(path)]
        if not entries or None in codes.values():
            return {}
        sources = {path: source for path, source in codes.items() if source is not None}
        strings = {path: self._leads.in_strings(path, source) for path, source in sources.items()}
        leads = {path: self._leads.of(path, sources[path]) | {home for home, _ in strings[path]} for path in sources}
        points = self._leads.entry_points()
        imported = {other for path, others in leads.items() for other in others if not self._is_test(path)}
        self._linked = {path for path in sources if leads[path] or path in imported}
        reached = followed([*entries, *(home for home, _ in points if home in sources)], leads)
        public = {path for path in sources if self._is_public(path, ()) and not self._is_test(path)}
        by_name = any(map(loads_by_name, sources.values()))
        if by_name:
            read = [path for path in sources if not self._is_test(path)]
        else:
            read = sorted(reached | public)
            homes = {posixpath.dirname(path) for path in imported}
            apart = {path for path in set(sources) - reached if not self._is_public(path, ())}
            self._alone = {path for path in apart if leads[path] or posixpath.dirname(path) in homes}
        live = self._entered(sources, read)
        for _, names in (*points, *(each for path in read for each in strings[path])):
            live.say(names)
        searched = {path for path in read if self._is_served(path)}
        searched |= {other for path in read for other in self._searched(path, sources[path], leads)}
        live.open(definition for path in searched for definition in self._outline(path).definitions)
        for path in read:
            around = {path, *leads[path], *(far for near in leads[path] if is_package(near) for far in leads[near])}
            live.offer(offered(sources[path]), self._outline(path), {each: self._outline(each) for each in around})
        for path in public:
            theirs = (each for each in self._outline(path).definitions if not each.name.startswith(b"_"))
            live.open(theirs)  # others call it
        if by_name:
            self._looks_up = list(sources.values())
            spoken = self._spoken(sources.values())
            everything = (definition for path in sources for definition in self._outline(path).definitions)
            live.open(definition for definition in everything if definition.name in spoken)
        live.spread()
        return {path: live.dead(self._outline(path)) for path in read if path in self._linked}

    def _spoken(self, sources: Iterable[bytes]) -> set[bytes]:
        """The words that stand somewhere besides a definition of them: in code, in a string, in a configuration."""
        named: Counter[bytes] = Counter()
        for source in sources:
            named.update(_NAME.findall(source))
            named.subtract(_DEFINED_ANYWHERE.findall(source))
        found = {word for word, number in named.items() if number > 0}
        return found.union(*(_NAME.findall(text(self._leads.read(path))) for path in texts(self._leads.paths)))

    def _may_be_put_together(self, name: bytes) -> bool:
        """Whether code that looks names up holds a beginning or an end of a name beside a quote or a brace:
        ``f"{kind}Trainer"``, ``"build_" + kind``."""
        ends = [match.start() for match in _PIECES.finditer(name)]
        pieces = [name[:at] + mark for at in ends for mark in (b"{", b'"', b"'", b"%")]
        pieces += [mark + name[at:] for at in ends for mark in (b"}", b'"', b"'", b"%s")]
        return any(piece in source for source in self._looks_up for piece in pieces)

    def _entered(self, sources: Mapping[str, bytes], read: Iterable[str]) -> Live:
        """What the files that are run or imported say, still without what it reaches."""
        outlines = {path: self._outline(path) for path in read}
        imported: set[bytes] = set().union(*(known.imported for known in outlines.values()))
        live = Live(collects=any(map(_COLLECTS.search, sources.values())), called=called_by(imported))
        for known in outlines.values():
            live.enter(known, with_main=not known.tries_itself)
        return live

    def _searched(self, path: str, source: bytes, leads: Mapping[str, set[str]]) -> Iterator[str]:
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
                    yield from leads[other] if is_package(other) else ()
