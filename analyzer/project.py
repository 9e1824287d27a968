"""Paths of the tree as modules, and imports resolved inside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from analyzer.api import Files
from analyzer.journal import Journal
from analyzer.programs import MARK, code, is_python, scripts
from analyzer.reach import Reach
from analyzer.settings import Settings

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?![ \t])(?P<dots>\.*)(?:[ \t]*(?P<module>\w[\w.]*))?[ \t]+import[ \t]*"
    rb"(?P<names>\([^()#]*(?:#[^\n]*\n[^()#]*)*\)|[^\n#;]*)"
    rb"|import[ \t]+(?P<modules>[^\n#;]+))",
    re.MULTILINE,
)
"""Each character can be taken in one way only, and no list goes past the next one's bracket: what is a million spaces,
dots or lists that do not end takes no longer than other text."""
_JOINED = re.compile(rb"\\\r?\n")
_WORD = re.compile(rb"\w+")
MAX_WORDS = 2_000_000
"""Kept from one target to the next: each of a file takes eight bytes, and what it is, once for all files, a hundred."""
_COMMENT = re.compile(rb"#[^\r\n]*")
_IMPORT_LINE = re.compile(rb"[ \t]*(?:from|import)\b")


class Project:
    """The tree under analysis as importable modules."""

    def __init__(self, files: Files, journal: Journal | None = None, *, has_all_texts: bool = True) -> None:
        self.files = files
        self._has_all_texts = has_all_texts
        self.journal = Journal() if journal is None else journal
        """The questions that anything was asked since somebody last looked: what a result depends on."""
        self._paths = frozenset(files.paths())
        self._python = sorted(filter(is_python, self._paths))
        self._code = sorted([*self._python, *scripts(self._paths)])
        self._by_word: dict[re.Pattern[bytes], dict[bytes, list[str]]] = {}
        """The files in which a pattern matches, by the words in them."""
        self._others: frozenset[str] = frozenset()
        """The files that are other than when the words were noted."""
        self._num_words = 0
        self._on_import_lines: dict[bytes, list[str]] | None = None
        self._resolved: dict[tuple[str, str, int], str | None] = {}
        self._changed: str | None = None
        self._reach: Reach | None = None
        self._settings: Settings | None = None
        self._is_whole: bool | None = None
        self._held: dict[str, bytes] = {}
        """The bytes of the files whose IR is known: every program that holds one asks for them again."""

    def with_changed(self, files: Files, path: str) -> Project:
        """The same tree with another text of one file: what is known of the others stays known."""
        changed: Project = object.__new__(Project)
        changed.files, changed.journal, changed._changed = files, self.journal, path
        changed._has_all_texts = self._has_all_texts
        changed._paths, changed._python, changed._code = self._paths, self._python, self._code
        changed._num_words = 0
        changed._by_word, changed._others = dict(self._by_word), self._others | {path}
        changed._on_import_lines, changed._resolved = self._on_import_lines, self._resolved
        changed._reach, changed._settings, changed._is_whole = self._in_rough, self._settings, self._is_whole
        changed._held = {known: source for known, source in self._held.items() if known != path}
        return changed

    def make_room(self) -> None:
        """Forget the words of files where they are many."""
        if self._num_words > MAX_WORDS:
            self._num_words = 0
            self._by_word.clear()

    @contextmanager
    def noting(self) -> Iterator[Journal]:
        """What is asked inside is noted apart as well: for who remembers what comes of it."""
        around, self.journal = self.journal, Journal()
        try:
            yield self.journal
        finally:
            around.add(self.journal)
            self.journal = around

    @property
    def is_single(self) -> bool:
        """Whether there is one Python file: who uses it stands elsewhere."""
        is_single = len(self._python) < 2
        self.journal.answers["single",] = is_single
        return is_single

    def read(self, path: str) -> bytes | None:
        """The bytes of a file of the tree."""
        self.journal.reads.add(path)
        known = self._held.get(path)
        return self.files.read(path) if known is None else known

    def hold(self, path: str, source: bytes) -> None:
        """Keep the bytes of a file, until it is let go."""
        self._held[path] = source

    def let_go(self, path: str) -> None:
        """Read a file again when somebody asks for it."""
        self._held.pop(path, None)

    def _text(self, path: str) -> bytes:
        return code(path, self.files.read(path)) or b""

    def naming(self, name: str, but: str, also: re.Pattern[bytes] | None = None) -> Iterator[str]:
        """The other Python files, notebooks and scripts that hold `name` as a word, and a match of `also`: one of few
        patterns, as every file is searched once for each."""
        words = (None, 0) if also is None else (also.pattern.decode("latin-1"), also.flags)
        return self.journal.listed(("naming", name, *words, but), self._naming(name, but, also), self._changed)

    def _naming(self, name: str, but: str, also: re.Pattern[bytes] | None) -> Iterator[str]:
        word = name.encode()
        if also is None:
            spoken = re.compile(rb"\b%s\b" % re.escape(word))
            texts = ((path, self._text(path)) for path in self._code)
            found = [path for path, text in texts if word in text and spoken.search(text)]  # the first is far cheaper
        else:
            found = self._with_word(word, also)
        return (path for path in found if path != but)

    def _with_word(self, word: bytes, also: re.Pattern[bytes]) -> list[str]:
        """The files that hold a word and a match of a pattern. The words of those with a match are noted once: asked of
        each file in turn for each name, this would take time with the square of their number."""
        known, others = self._by_word.get(also), self._others
        if known is None:
            known = self._by_word[also] = {}
            for path in self._code:
                source = self._text(path)
                if path not in others and also.search(source) is not None:
                    words = set(_WORD.findall(source))
                    self._num_words += len(words)
                    for each in words:
                        known.setdefault(each, []).append(path)
        found = [path for path in known.get(word, ()) if path not in others]
        for path in others & self._paths:
            source = self._text(path)
            if also.search(source) is not None and word in _WORD.findall(source):
                found.append(path)
        return sorted(found) if others else found

    @property
    def is_whole(self) -> bool:
        """Whether all code of the tree can be read: a pull request's tree may be there in part."""
        if self._is_whole is None:
            self._is_whole = all(self.files.read(path) is not None for path in self._code)
        self.journal.answers["whole",] = self._is_whole
        return self._is_whole

    def callers(self, name: str, path: str, also: re.Pattern[bytes] | None = None) -> Iterator[str]:
        """As `naming`: the other files that may call what `path` defines under a name. Those of another program do not:
        two scripts that have a function ``validate`` each."""
        return (other for other in self.naming(name, path, also) if not self.are_apart(path, other))

    def are_apart(self, path: str, other: str) -> bool:
        """Whether no imports lead from one file to the other, in whatever direction. Asked as `unreached`."""
        found = self.journal.answers["apart", path, other] = self._in_rough.are_apart(path, other)
        return found

    def is_by_itself(self, path: str) -> bool:
        """Whether a file is read without its program: the only one, or an excerpt (`Reach.is_by_itself`)."""
        if self.is_single:
            return True
        found = self.journal.answers["by itself", path] = self._in_rough.is_by_itself(path)
        return found

    def importers(self, name: str, path: str) -> Iterator[str]:
        """The other files that import `path` with `name` as a word on a line of an import. The tree is read once for
        all names: asked of each file in turn, this would take time with the square of their number."""
        return self.journal.listed(("importers", name, path), self._importers(name, path), self._changed)

    def _importers(self, name: str, path: str) -> Iterator[str]:
        if self._on_import_lines is None:
            self._on_import_lines = {}
            for each in self._code:
                for known in _words_on_import_lines(self._text(each)):
                    self._on_import_lines.setdefault(known, []).append(each)
        word, changed = name.encode(), self._changed
        found = [each for each in self._on_import_lines.get(word, ()) if each not in (path, changed)]
        if changed not in (None, path) and word in _words_on_import_lines(self.files.read(changed) or b""):
            found.append(changed)
        return (each for each in found if self._imports(each, path))

    def imports(self, path: str, other: str) -> bool:
        """Whether one file of the tree imports another."""
        found = self._imports(path, other)
        if path != self._changed:
            self.journal.answers["imports", path, other] = found
        return found

    def _imports(self, path: str, other: str) -> bool:
        source = self.files.read(path)
        if source is None:
            return False
        if path != self._changed:
            return other in imported_paths(source, path, self._paths)
        self.journal.reads.add(path)
        return other in _imported(source, path, lambda module, level: self.resolve(module, path, level))

    def unreached(self, path: str, names: tuple[str, ...]) -> str | None:
        """Why nothing in the tree reaches a definition, known by its name, or its class' and its own; None where
        something may. Asked of the tree as it is, whatever is tried on one file."""
        found = self._in_rough.why_not(path, names)
        question: tuple[str | int | None, ...] = ("unreached", path)
        self.journal.answers[question + names] = found
        return found

    def is_linked(self, path: str) -> bool:
        """Whether a file imports another one of a tree that shows a program, or is imported. Asked as `unreached`."""
        found = self.journal.answers["linked", path] = self._in_rough.is_linked(path)
        return found

    def is_left_off(self, name: str) -> bool:
        """Whether the texts of the tree turn a setting off, and none turns it on (`analyzer.settings`). Asked of the
        tree as it is, whatever is tried on one file."""
        found = self.journal.answers["left off", name] = self._tells_all and self._set.is_left_off(name)
        return found

    def is_left_on(self, name: str) -> bool:
        """Whether the texts of the tree turn a setting on, and none turns it off. Asked as `is_left_off`."""
        found = self.journal.answers["left on", name] = self._tells_all and self._set.is_left_on(name)
        return found

    def largest(self, name: str) -> int:
        """The largest number that the texts of the tree give a setting; 0 where they give none, or were not all read.
        Asked as `is_left_off`."""
        found = self.journal.answers["largest", name] = self._set.largest(name) if self._tells_all else 0
        return found

    def shows_runs(self) -> bool:
        """Whether the texts of the tree show a command that runs a program. Asked as `is_left_off`."""
        found = self.journal.answers["shows runs",] = self._tells_all and self._set.is_run
        return found

    def is_run_alone(self) -> bool:
        """Whether the texts of the tree show how its programs are run, and none speaks of several processes. Asked as
        `is_left_off`."""
        is_alone = self._tells_all and self._set.is_run and not self._set.is_run_together
        self.journal.answers["run alone",] = is_alone
        return is_alone

    @property
    def _tells_all(self) -> bool:
        return self.is_whole and self._has_all_texts

    @property
    def _set(self) -> Settings:
        if self._settings is None:
            self._settings = Settings(self._paths, self.files.read)
        return self._settings

    @property
    def _in_rough(self) -> Reach:
        if self._reach is None:
            self._reach = Reach(
                self._paths,
                self.files.read,
                lambda source: imported_modules(_JOINED.sub(b" ", source)),
                self._home,
                has_all_texts=self._has_all_texts,
            )
        return self._reach

    def _home(self, module: str, from_path: str, level: int) -> str | None:
        key = (module, from_path.rpartition("/")[0], level)
        if key not in self._resolved:
            self._resolved[key] = resolve(self._paths, module, from_path, level)
        return self._resolved[key]

    def module_name(self, path: str) -> str:
        """The dotted name of a file."""
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").removeprefix("src.")

    def resolve(self, module: str, from_path: str, level: int) -> str | None:
        """The file that an import means, or None where it leads outside the tree.

        An absolute import is looked for beside the importing file, then in each folder above it and its ``src``.
        """
        found = self._home(module, from_path, level)
        self.journal.answers["file", module, from_path.rpartition("/")[0], level] = found
        return found


def _words_on_import_lines(source: bytes) -> set[bytes]:
    lines = (line for line in source.removeprefix(MARK).split(b"\n") if b"import" in line or b"from" in line)
    return {word for line in lines if _IMPORT_LINE.match(line) for word in _WORD.findall(line)}


def is_imported(source: bytes, name: bytes) -> bool:
    """Whether a word stands on a line that imports something."""
    return name in _words_on_import_lines(source)


def resolve(paths: Collection[str], module: str, from_path: str, level: int) -> str | None:
    """See `Project.resolve`."""
    parts = [part for part in module.split(".") if part]
    for base in _bases(from_path, level):
        stem = "/".join([*base, *parts])
        for path in (f"{stem}.py", f"{stem}/__init__.py" if stem else "__init__.py"):
            if path in paths:
                return path
    return None


def _bases(from_path: str, level: int) -> Iterator[list[str]]:
    folder = from_path.split("/")[:-1]
    if level:
        if level - 1 <= len(folder):
            yield folder[: len(folder) - level + 1]
        return
    for end in range(len(folder), -1, -1):
        yield folder[:end]
        yield [*folder[:end], "src"]


def imported_paths(source: bytes, path: str, known: Collection[str]) -> list[str]:
    """See `analyzer.api.imported_paths`. Text in a string that looks like an import counts as one; so does every name
    that may be a submodule; packages on the way run their ``__init__``, so they count."""
    paths = known if isinstance(known, (set, frozenset)) else frozenset(known)
    return _imported(source, path, lambda module, level: resolve(paths, module, path, level))


def _imported(source: bytes, path: str, home: Callable[[str, int], str | None]) -> list[str]:
    found: dict[str, None] = {}
    for module, level in imported_modules(_JOINED.sub(b" ", source)):
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            target = home(".".join(parts[:end]), level)
            if target is not None and target != path:
                found[target] = None
    return list(found)


def imported_modules(source: bytes) -> Iterator[tuple[str, int]]:
    """Dotted names and levels; ``from a import b`` may mean the module ``a.b``."""
    for match in _IMPORT.finditer(source.removeprefix(MARK)):
        if match["modules"]:
            for part in match["modules"].decode("utf-8", "replace").split(","):
                if words := part.split():
                    yield words[0], 0
            continue
        level, module = len(match["dots"]), (match["module"] or b"").decode("utf-8", "replace")
        if not level and not module:
            continue
        yield module, level
        text = _COMMENT.sub(b"", match["names"]).strip(b"()").decode("utf-8", "replace")
        for part in text.split(","):
            words = part.split()
            if words and words[0] != "*":
                yield f"{module}.{words[0]}" if module else words[0], level
