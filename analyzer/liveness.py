"""What words reach: from those of code that is run to the definitions that they may mean, and on to the words of those.

A definition is reached where a word that is read is its name, whatever it means there (`analyzer.reach`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from analyzer.outline import Definition, Outline

_PLAIN_BASES = frozenset({b"object", b"Module", b"ABC", b"ModuleList", b"Sequential"})
"""Classes that call no methods of those who inherit from them but for `analyzer.callers.called_by`."""


class Live:
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
