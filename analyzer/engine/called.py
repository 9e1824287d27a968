"""Whether anything calls a function, or builds a class, that was read without its callers.

Three answers, for three questions. *Called by others*: no other file names it, so that its callers are not in the tree,
and do what they like (`is_for_others`). *Named nowhere else*: its name stands once in the tree, so that no caller is
left that may run it in a context of its own (`is_uncalled`); rules are silent, or less sure, for such code. *Reached by
nothing*: no program of the tree leads to it by the words of what is run (`analyzer.reach`): the finding is true, and
harms nobody (`why_unreached`). The latter two only speak where the whole tree could be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.engine.events import Event
from analyzer.engine.program import Program
from analyzer.engine.trace import Site, Trace, start
from analyzer.reach import NO_IMPORT
from analyzer.syntax import ir
from analyzer.syntax.scope import walk

_ANYTHING = re.compile(rb"")
_COMMENTED = re.compile(rb"^[ \t]*#.*", re.MULTILINE)
_BY_NAME = re.compile(rb"getattr\([^()]*\)\s*\(|getattr\(self,\s*(?![\"'\s])")
_WHY = {
    False: "nothing that is run or imported in this tree names it: it is not run as the project is",
    True: "no program of this tree imports this file, and it runs nothing by itself",
}


def is_for_others(program: Program, event: Event) -> bool:
    """Whether an event was reached through a function that was read without its callers, and that no other file of the
    tree names."""
    is_entry = bool(event.calls) and event.calls[0] in program.entries
    return is_entry and not program.names_entry(event, _ANYTHING)


def is_never_named(program: Program, calls: Sequence[Site]) -> bool:
    """Whether the function that `calls` begin with is uncalled, in a tree of several files: who uses a file that is
    alone, or an excerpt among others, stands elsewhere."""
    return bool(calls) and is_uncalled(program, calls[0]) and not program.project.is_by_itself(calls[0].path)


def is_uncalled(program: Program, entry: Site) -> bool:
    """Whether the name of a function that was read without its callers stands nowhere else in the tree. A decorator may
    hand it to a caller, and code of a base class that was not read may be one."""
    name = program.entries.get(entry, "")
    unit = program.unit(entry.path) if name else None
    if unit is None or entry in program.open_entries:
        return False
    node = next((each for each in walk(unit.body, True) if getattr(each, "at", None) == entry.at), None)
    if not isinstance(node, ir.FunctionDef) or node.decorators:
        return False
    if name.startswith("__"):  # said by no caller, who makes an instance
        name = program.class_around(entry) or name
    if not _is_named(program, name, entry.path, own=1):
        return True
    return name == node.name and bool(program.class_around(entry)) and _is_never_asked_for(program, name, entry.path)


def _is_never_asked_for(program: Program, name: str, path: str) -> bool:
    """Whether nothing in the tree calls a method by its name, or hands it on, however often the name stands for
    something else: ``trainer.val(loader)``, not ``meter.val``. Names that are made when the program runs may be any."""
    project = program.project
    files = [path, *project.callers(name, path)]
    if not project.is_whole or _BY_NAME.search(project.read(path) or b""):
        return False
    if any(True for _ in project.callers("getattr", path, _BY_NAME)):
        return False
    asked = re.compile(rb"\.\s*%s\b(?P<call>\s*\()?" % re.escape(name.encode()))
    field = re.compile(rb"\.\s*%s\s*=[^=]" % re.escape(name.encode()))
    sources = [project.read(each) or b"" for each in files]
    if any(match["call"] for source in sources for match in asked.finditer(source)):
        return False
    return not any(map(asked.search, sources)) or any(map(field.search, sources))


def is_of_unused_class(program: Program, site: Site) -> bool:
    """Whether a method's class is named nowhere in a tree of several files but where it is defined, and by itself."""
    unit = program.unit(site.path)
    classes = [node for node in (unit.body if unit is not None else ()) if isinstance(node, ir.ClassDef)]
    cls = next(
        (each for each in classes if any(getattr(part, "at", None) == site.at for part in walk(each.body, True))), None
    )
    if cls is None or unit is None or cls.decorators:
        return False
    own = 1 + sum(1 for part in walk(cls.body, True) if isinstance(part, ir.Name) and part.id == cls.name)
    return not _is_named(program, cls.name, site.path, own) and not program.project.is_by_itself(site.path)


def _is_named(program: Program, name: str, path: str, own: int) -> bool:
    """Whether a word stands in a file more often than `own` times, or may stand in another one. A file that has a
    definition of that name, and does not import this one, speaks of its own: people copy scripts."""
    project, word = program.project, re.escape(name.encode())
    said = re.compile(rb"\b%s\b" % word)
    if _count(said, project.read(path) or b"", own) > own:
        return True
    defined = re.compile(rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+%s\b" % word, re.MULTILINE)
    others = project.callers(name, path)
    sources = ((each, project.read(each) or b"") for each in others)
    is_said = any(
        _count(said, source, 0) and (not defined.search(source) or project.imports(each, path))
        for each, source in sources
    )
    return is_said or not project.is_whole


def _count(said: re.Pattern[bytes], source: bytes, own: int) -> int:
    """How often a word stands in a file: what is commented out runs nothing."""
    count = len(said.findall(source))
    return len(said.findall(_COMMENTED.sub(b"", source))) if count > own else count


def why_unreached(program: Program, site: Site) -> Trace | None:
    """The step of evidence that says that nothing reaches a place; None where something may."""
    unit = program.unit(site.path)
    around = _around(unit.body, site.at) if unit is not None else None
    if around is None:
        return None
    names = [around.name]
    inner = _around(around.body, site.at) if isinstance(around, ir.ClassDef) else None
    if inner is not None:
        names.append(inner.name)
    why = program.project.unreached(site.path, tuple(names))
    return None if why is None else start(Site(site.path, around.at), _WHY[why == NO_IMPORT])


def _around(body: ir.Block, at: ir.NodeId) -> ir.FunctionDef | ir.ClassDef | None:
    """The definition of a block whose text holds a node: statements are numbered in the order of the text."""
    found = None
    for node in body:
        if node.at > at:
            break
        found = node
    return found if isinstance(found, (ir.FunctionDef, ir.ClassDef)) else None
