"""How much of the training code of real checkouts the engine sees: call sites of ``backward``, ``step`` and
``zero_grad`` that produced no event, backward passes whose forward pass was not seen, and steps of unknown modules.

``python benchmarks/event_recall.py CHECKOUT… [--list]``: one line per checkout and a total. It reads the checkouts and
runs none of their code. What counts as the step of an optimizer is told by the text of the receiver: good enough to
measure with, and no rule sees it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

sys.path.insert(0, str(Path(__file__).parents[1]))

from analyzer import screen
from analyzer.engine.events import Backward, Clear, Event, Forward, Step
from analyzer.engine.program import Program
from analyzer.engine.sources import Sources
from analyzer.engine.trace import Site
from analyzer.knowledge.schema import knowledge
from analyzer.pipeline import quiet_collector
from analyzer.positions import spans
from analyzer.project import Project

_KINDS: dict[str, type[Event]] = {"backward": Backward, "step": Step, "zero_grad": Clear}
_OPTIMIZER = re.compile(r"opti|scaler|\bopt|\boptim|trainer[dg_]?\b", re.IGNORECASE)
_NO_OPTIMIZER = re.compile(r"sched|env|lr_|sampler", re.IGNORECASE)


class Tree:
    """The Python files of one checkout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found = [str(path.relative_to(root)) for path in sorted(root.rglob("*.py")) if path.is_file()]

    def paths(self) -> Sequence[str]:
        """Every Python file."""
        return self.found

    def read(self, path: str) -> bytes | None:
        """The bytes of one."""
        full = self.root / path
        return full.read_bytes() if full.is_file() else None


def sites_of(path: str, sources: Sources) -> Iterator[tuple[str, Site]]:
    """The calls of a parsed file that should produce an event, by kind."""
    module, nodes = sources.tree(path)
    for number, node in enumerate(nodes):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        name = node.func.attr.value
        if name not in _KINDS:
            continue
        receiver = module.code_for_node(node.func.value)
        if receiver == "super()" or (name == "step" and not _is_optimizer(receiver)):
            continue
        yield name, Site(path, number)


def _is_optimizer(receiver: str) -> bool:
    return bool(_OPTIMIZER.search(receiver)) and not _NO_OPTIMIZER.search(receiver)


def measure(root: Path, show: bool) -> Counter[str]:
    """Count, for one checkout, what is there and what was seen."""
    sources = Sources(Project(Tree(root)))
    seen: dict[str, set[Site]] = {name: set() for name in _KINDS}
    rooted: set[Site] = set()
    owned: set[Site] = set()
    read: set[str] = set()
    cut = 0
    for path in sources.project.files.paths():
        if not screen.may_matter(sources.project.read(path) or b""):
            continue
        program = Program(sources.project, knowledge(), sources)
        program.run_target(path)
        cut += len(program.skipped)
        read.add(path)
        forwards = {event.site for event in program.of(Forward)}
        for event in program.events:
            for name, kind in _KINDS.items():
                if isinstance(event, kind):
                    seen[name].add(event.site)
            if isinstance(event, Backward) and event.roots & forwards:
                rooted.add(event.site)
            if isinstance(event, Step) and event.modules:
                owned.add(event.site)
    wanted = [
        item
        for path in sorted(path for path in read if sources.unit(path) is not None)
        for item in sites_of(path, sources)
    ]
    counts: Counter[str] = Counter(cut_off=cut)
    for name, site in wanted:
        counts[name] += 1
        counts[f"{name} seen"] += site in seen[name]
        counts["backward rooted"] += name == "backward" and site in rooted
        counts["step owned"] += name == "step" and site in owned
    if show:
        _list(sources, [(name, site) for name, site in wanted if site not in seen[name]], "not seen")
        _list(sources, [(n, s) for n, s in wanted if n == "backward" and s in seen[n] - rooted], "no forward")
        _list(sources, [(n, s) for n, s in wanted if n == "step" and s in seen[n] - owned], "no modules")
    return counts


def _list(sources: Sources, missed: Sequence[tuple[str, Site]], what: str) -> None:
    for path in dict.fromkeys(site.path for _, site in missed):
        module, nodes = sources.tree(path)
        places = spans(module, path, {nodes[site.at] for _, site in missed if site.path == path})
        for name, site in missed:
            if site.path == path:
                print(f"  {what:<10} {name:<9} {path}:{places[nodes[site.at]].start.line} {sources.text(site)}")


def line(name: str, counts: Counter[str], seconds: float) -> str:
    """One row of the table."""

    def share(part: str, whole: str) -> str:
        total = counts[whole]
        return f"{counts[part]}/{total} {counts[part] / total:.0%}" if total else "-"

    cells = [share(f"{kind} seen", kind) for kind in _KINDS]
    cells += [share("backward rooted", "backward"), share("step owned", "step"), str(counts["cut_off"])]
    return f"{name:<40} " + " ".join(f"{cell:<14}" for cell in cells) + f" {seconds:.0f} s"


def main() -> None:
    """Measure every checkout named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--list", action="store_true", help="name the sites that were missed")
    args = parser.parse_args()
    heads = ("backward", "step", "zero_grad", "with forward", "with modules", "cut off")
    print(f"{'checkout':<40} " + " ".join(f"{head:<14}" for head in heads))
    total: Counter[str] = Counter()
    begin = time.process_time()
    for root in args.checkouts:
        started = time.process_time()
        with quiet_collector():
            counts = measure(root, args.list)
        total.update(counts)
        print(line(root.name, counts, time.process_time() - started), flush=True)
    print(line("all", total, time.process_time() - begin))


if __name__ == "__main__":
    main()
