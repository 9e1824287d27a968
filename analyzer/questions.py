"""The estimator's question: which values reach these calls? Answered by the same interpreter as the rules."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from analyzer.api import Argument, CallSite, Files, Known, Origin, Ref, Unseen
from analyzer.engine import values as engine
from analyzer.engine.commands import ARGV
from analyzer.engine.events import CallSeen
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.engine.trace import Site, Trace
from analyzer.knowledge.overlays.documents import DATA
from analyzer.knowledge.schema import knowledge
from analyzer.notebooks.files import NotebookFiles
from analyzer.pipeline import quiet_collector, seen_again
from analyzer.project import Project

MAX_DEPTH = 6  # lists and dicts inside one another


def call_sites(
    files: Files, entry: str, callees: Collection[str], argv: Sequence[tuple[str, Origin]]
) -> tuple[CallSite, ...]:
    """See `analyzer.api.call_sites`."""
    with quiet_collector():
        tree = NotebookFiles(files)
        sources = Sources(Project(tree))

        def ask() -> tuple[CallSite, ...]:
            program = Program(sources.project, knowledge(), sources)
            program.argv, program.wanted = argv, frozenset(callees)
            state = program.run_main(entry)
            if not any(program.of(CallSeen)):
                program.run_rest(entry, state)
            return _Answer(program, argv, tree).sites()

        return seen_again(ask)


class _Answer:
    """Translates the engine's values into the contract's."""

    def __init__(self, program: Program, argv: Sequence[tuple[str, Origin]], tree: NotebookFiles) -> None:
        self.program = program
        self.tree = tree
        self.argv = argv
        self.lines: dict[Site, int] = {}
        self.held: Mapping[engine.ObjectId, tuple[tuple[str, engine.Value], ...]] = {}

    def sites(self) -> tuple[CallSite, ...]:
        events = list(self.program.of(CallSeen))
        self.locate({event.site for event in events} | {site for event in events for site in _sites(event)})
        return tuple(self.site(event) for event in events)

    def locate(self, sites: set[Site]) -> None:
        """Lines of everything an answer names, one pass per file."""
        read = self.program.sources.units
        for path in {site.path for site in sites if read.get(site.path) is not None}:
            found = self.program.sources.spans(path, {site.at for site in sites if site.path == path})
            self.lines.update({Site(path, at): span.start.line for at, span in found.items()})

    def site(self, event: CallSeen) -> CallSite:
        self.held = event.held
        arguments = {str(index): self.values(value, event.site) for index, value in enumerate(event.args)}
        arguments.update({name: self.values(value, event.site) for name, value in event.keywords})
        receiver = self.receiver(event.receiver, event.site) if event.receiver is not None else ()
        return CallSite(
            event.number, event.callee, arguments, receiver, self.origin(event.trace, event.site), event.has_more
        )

    def receiver(self, value: engine.Value, site: Site) -> tuple[Argument, ...]:
        """What a method is called on: an object of a library that was not read is known by what made it."""
        return tuple(
            Ref(case.called, None, self.origin(case.trace, site))
            if isinstance(case, engine.Unknown) and case.called and not case.called.startswith(".")
            else self.value(case, site)
            for case in value.cases
        )

    def values(self, value: engine.Value, site: Site) -> tuple[Argument, ...]:
        return tuple(self.value(case, site) for case in value.cases)

    def value(self, case: engine.Value, site: Site) -> Argument:
        origin = self.origin(case.trace, site)
        if isinstance(case, engine.Const):
            return self.known(case, site)
        if isinstance(case, engine.External):
            return Ref(case.name, None, origin)
        if isinstance(case, engine.Class):
            return Ref(case.node.name, None, origin)
        if isinstance(case, engine.Ref):
            return self.made(case, site, origin)
        if isinstance(case, engine.Tuple) and all(isinstance(item, engine.Const) for item in case.items):
            return Known(tuple(item.value for item in case.items if isinstance(item, engine.Const)), origin)
        if isinstance(case, engine.Unknown):
            return Unseen(case.reason, origin)
        return Unseen("computed when the program runs", origin)

    def known(self, case: engine.Const, site: Site) -> Argument:
        overrides = tuple(
            item for item in (self.known(each, site) for each in case.overrides) if isinstance(item, Known)
        )
        if isinstance(case.value, (int, float, str, bool, tuple)) or case.value is None:
            return Known(case.value, self.origin(case.trace, site), overrides)
        return Unseen("a constant of another type", self.origin(case.trace, site))

    def made(self, ref: engine.Ref, site: Site, origin: Origin, depth: int = 0) -> Argument:
        obj = self.program.objects[ref.obj]
        name = obj.name or (obj.cls.node.name if obj.cls else obj.kind)
        return Ref(name, obj.call, origin, self.items(ref, site, depth))

    def items(self, ref: engine.Ref, site: Site, depth: int) -> tuple[tuple[object, tuple[Argument, ...]], ...] | None:
        """What a list or dict holds, by key; None where the text does not show every key."""
        fields = self.held.get(ref.obj)
        if fields is None or depth > MAX_DEPTH:
            return None
        found: list[tuple[object, tuple[Argument, ...]]] = []
        for name, value in fields:
            try:
                key = ast.literal_eval(name[1:-1])
            except (ValueError, SyntaxError):
                return None
            inner = [
                self.made(case, site, self.origin(case.trace, site), depth + 1)
                if isinstance(case, engine.Ref)
                else self.value(case, site)
                for case in value.cases
            ]
            found.append((key, tuple(inner)))
        return tuple(found)

    def origin(self, trace: Trace | None, site: Site) -> Origin:
        place = trace.site if trace is not None else site
        if place.path == ARGV:
            return self.argv[place.at][1]
        if place.path.startswith(DATA):
            return Origin(place.path.removeprefix(DATA), place.at, trace.note if trace is not None else "")
        text = trace.note if trace is not None and trace.note != "here" else ""
        return Origin(place.path, self.tree.line(place.path, self.lines.get(place, 1)), text)


def _sites(event: CallSeen) -> list[Site]:
    found: list[Site] = []
    given = [*event.args, *(value for _, value in event.keywords), *([event.receiver] if event.receiver else [])]
    given += [value for fields in event.held.values() for _, value in fields]
    for value in given:
        for case in value.cases:
            found += [case.trace.site] if case.trace else []
            if isinstance(case, engine.Const):
                found += [each.trace.site for each in case.overrides if each.trace]
    return found
