"""PF206 partial-seeding."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzer.engine.data_events import Drawn, LoaderMade, Seeded
from analyzer.engine.events import Backward, Event, Guard, Mode, Step
from analyzer.engine.loading import is_const
from analyzer.engine.optim_events import OptimizerMade
from analyzer.engine.plots import is_only_plotted, is_only_shown
from analyzer.engine.program import Program
from analyzer.engine.randomness import STREAMS, Randomness, draws_of, is_right_before_order, randomness, seeds_of
from analyzer.engine.stopped import is_run
from analyzer.engine.trace import Gap, Site, Trace, start
from analyzer.engine.words import spelled, words
from analyzer.findings import Severity
from analyzer.rules.base import Report, Rule
from analyzer.rules.drawn_seeds import makes_seed
from analyzer.rules.idle_draws import are_made_up, are_of_evaluation, drawn_names, is_drawn_again, is_drawn_fresh
from analyzer.rules.item_draws import is_for_item, is_of_dataset, without_workers
from analyzer.rules.offered import is_one_of_several
from analyzer.syntax import ir
from analyzer.syntax.scope import dotted, last_name, nodes_around, walk

_PICKS = {"sample": 1, "choice": 1, "choices": 1, "randint": 2, "randrange": 2}
"""Draws of a few things, and how many arguments come before how many."""
_FEW = 32
_FILE_WORDS = re.compile(r"(?:\b|_)exists?\b|\bis_?file\b")
_PUTS_BACK = ("set_state", "setstate", "set_rng_state")
_SPLIT_WORDS = re.compile(r"split|fold|subset", re.IGNORECASE)
_RUN_WORDS = re.compile(r"runs|trials|repeat|seeds", re.IGNORECASE)
_SEED = {"torch": "torch.manual_seed(seed)", "numpy": "np.random.seed(seed)", "python": "random.seed(seed)"}


class PartialSeeding(Rule):
    """Some generators of random numbers are seeded, others that the program draws from are not.

    ## Why it matters
    torch, NumPy and Python's ``random`` each have a generator of their own. A program that seeds one of them looks
    reproducible and is not: shuffles, splits, augmentations or initial weights differ from run to run, and a
    comparison of two runs measures luck.

    ## Example
    ```python
    torch.manual_seed(0)
    order = np.random.permutation(len(data))
    ```

    ## Use instead
    ```python
    torch.manual_seed(0)
    np.random.seed(0)
    order = np.random.permutation(len(data))
    ```

    ## When it stays quiet
    When every generator that is drawn from is seeded somewhere in the program, in a helper or by a framework
    (Sacred, Lightning's command line); when a generator of one's own is used (``np.random.default_rng(0)``); when
    the generator that is not seeded is never drawn from, or only after the training, for a picture (also to pick
    what it shows), for a seed, where a file keeps what came out, or in the workers of a loader, where torch seeds
    NumPy and ``random``. A seed right before one shuffle or split may be meant for that alone, where the steps of
    the training draw nothing from it: it is possible, and a function that puts the state back seeds nothing.

    It is a warning where the text shows the whole of it: what the file runs when it is started seeds, trains, and
    draws. It is a note where what is drawn is drawn once and puts no data into an order, where one of the three was
    not seen to be reached from there (a program that trains nothing, a function that only others call, a draw that
    no call leads to), where NumPy or ``random`` alone is seeded for data that is drawn right there or for a
    dataset, where cells of a notebook, or the items of a dataset, make up data with what is not seeded, where the
    seed itself is drawn anew in each run, where a name chooses what draws among several (a data set), and where the
    run has drawn from the same generator before it; also where what is drawn picks from held-out data or in a
    function that evaluates or logs, and where the seed stands in the set-up of a process group. Where nothing at
    all is seeded, a training script gets a note, unless it trains several times to report how much the results
    vary.

    ## Fix safety
    No automatic fix: where the seed belongs is the author's choice.
    """

    code = "PF206"
    name = "partial-seeding"
    alias = "TG008"
    severity = Severity.WARNING
    since = "0.1"

    def check(self, program: Program, report: Report) -> None:
        """A generator that is drawn from and not seeded, in a program that seeds another."""
        speaks = any(b"seed" in (program.project.read(path) or b"") for path in program.modules)
        if not speaks and not _trains_at_once(program):
            return
        found = randomness(program)
        trains = _training(program)
        drawn = set(found.draws)
        first = next(iter(program.modules), "")
        if trains or (first in found.layers and not found.is_restored):
            drawn.add("torch")
        if not found.seeds:
            if not found.is_uncertain:
                _note_none(program, report, found)
            return
        if _is_library(program, is_demo=trains is None) or (not trains and (_seeds_items(program) or _infers(program))):
            return
        for stream in sorted(drawn - found.seeds.keys()):
            _report(program, report, found, stream, trains)


def _whose(program: Program, site: Site) -> str:
    """The program that a finding speaks of, as a reader of the file sees it: several may import one file."""
    return "this program" if site.path == program.target else "a program that imports this file"


def _training(program: Program) -> Step | None:
    """A step in a loop: the program initialises and trains something, which draws from torch."""
    if next(program.of(Backward), None) is None:
        return None
    return next((event for event in program.of(Step) if event.loops), None)


def _report(program: Program, report: Report, found: Randomness, stream: str, trains: Step | None) -> None:
    seeds = [(site, other) for other in found.seeds for site in seeds_of(program, found, other)]
    seeded = sorted(pair for pair in seeds if not _is_for_another(program, pair[0]))
    if stream == "torch" and not _means_the_run(program, found):
        return
    sites = _that_matter(program, draws_of(program, found, stream), stream, trains)
    whole = next((run for run in _runs(program) if run.is_whole(seeded, sites, stream)), None)
    if whole is not None:
        seeded.sort(key=lambda pair: pair[0] not in whole.seeded)
        sites.sort(key=lambda site: not whole.draws(site))
    draw = start(sites[0], f"{STREAMS[stream]} is drawn from here") if sites else None
    if draw is None and stream == "torch":
        draw = trains.trace if trains is not None else _layer(program, found)
    if not seeded or draw is None:
        return
    first = seeded[0][0]
    fresh = drawn_names(program, found, first)
    is_fresh = all(is_drawn_fresh(program, site, fresh) for site, _ in seeded if site.path == first.path)
    names = sorted({STREAMS[other] for _, other in seeded if other in STREAMS}) or ["the generator of the GPU"]
    report(
        first,
        f"The seeding {{is}} partial: it covers {' and '.join(names)}, but {_whose(program, first)} also draws from "
        f"{STREAMS[stream]}: runs {{will differ}}. Call `{_SEED[stream]}` as well.",
        because=[start(first, "some generators are seeded here"), draw],
        gaps=[Gap.UNSEEN if found.is_uncertain or _are_for_one_draw(program, seeded) else Gap.CONVENTION],
        severity=Severity.NOTE
        if whole is None
        or _is_beside(program, seeded)
        or is_fresh
        or are_made_up(program, sites)
        or are_of_evaluation(program, sites)
        or not (stream == "torch" or any(is_drawn_again(program, site) for site in sites))
        or all(_is_for_ranks(program, site) for site, _ in seeded)
        else None,
    )


class _Run:
    """What happens when the file is started, or when one function is called that nobody was seen to call."""

    def __init__(self, program: Program, entry: Site | None) -> None:
        self.program = program
        self.entry = entry
        draws = [event for event in program.of(Drawn) if self.reaches(event) and _is_for_run(program, event.site)]
        self.seeded = {
            event.site
            for event in program.of(Seeded)
            if self.reaches(event) and not _is_again(program, event) and not _is_late(event, draws)
        }
        self.drawn = {
            event.site for event in program.of(Drawn) if self.reaches(event) and not is_one_of_several(program, event)
        }

    def reaches(self, event: Event) -> bool:
        """Whether an event happens in this run. The body of the file runs what it was seen to call, and what it names,
        directly or in the functions so named (``mp.spawn(worker)``, ``fire.Fire(main)``)."""
        if self.entry is not None:
            return event.calls[:1] == (self.entry,)
        first = next(iter(self.program.modules), "")
        return is_run(self.program, event) or (
            event.calls[0].path == first and event.calls[0].at in _named(self.program, first)
        )

    def is_whole(self, seeded: list[tuple[Site, str]], sites: list[Site], stream: str) -> bool:
        """Whether it seeds, trains, and draws from a generator: training itself draws from torch."""
        draws = stream == "torch" or any(self.draws(site) for site in sites)
        return draws and any(site in self.seeded for site, _ in seeded) and self.trains()

    def draws(self, site: Site) -> bool:
        """Whether a place that draws is reached, or makes the items of a dataset or a transform that somebody makes."""
        if site in self.drawn:
            return True
        if not is_for_item(self.program, site):
            return False
        around = self.program.function_around(site)
        made = ((obj.cls, obj.trace.site) for obj in self.program.objects if obj.cls is not None)
        return any(
            cls.path == site.path and around in cls.node.body and at != Site(cls.path, cls.node.at) for cls, at in made
        )

    def trains(self) -> bool:
        """Whether a step of an optimizer in a loop is reached, or a backward pass in one where an optimizer is made."""
        events: list[Event] = [*self.program.of(Step)]
        if any(self.program.of(OptimizerMade)):
            events += self.program.of(Backward)
        return any(event.loops and self.reaches(event) for event in events)


def _runs(program: Program) -> Iterator[_Run]:
    """The start of the file, and the functions that seed."""
    yield _Run(program, None)
    for entry in dict.fromkeys(event.calls[0] for event in program.of(Seeded) if not is_run(program, event)):
        yield _Run(program, entry)


def _is_for_run(program: Program, site: Site) -> bool:
    """Whether what is drawn is a part of the run, and no seed or name of it."""
    return not makes_seed(program, site) and not _is_in_text(program, site)


def _is_late(seed: Seeded, draws: list[Drawn]) -> bool:
    """Whether the run has drawn from the same generator before: the seed is for what comes next (a split), and the run
    differs anyway."""
    return any(draw.streams & seed.streams and draw.order < seed.order for draw in draws)


def _is_again(program: Program, seed: Seeded) -> bool:
    """Whether something is seeded for each item, epoch or batch of one training."""
    return bool(seed.loops) and not any(program.within(OptimizerMade, seed.loops))


def _named(program: Program, path: str) -> frozenset[int]:
    """The functions and methods of a file that its body names, and those that these name in turn."""
    known = program.answers.get(_Run)
    if isinstance(known, frozenset):
        return known
    unit = program.unit(path)
    body = unit.body if unit is not None else ()
    defined: dict[str, list[ir.FunctionDef]] = {}
    for node in walk(body, True):
        if isinstance(node, ir.FunctionDef):
            defined.setdefault(node.name, []).append(node)
    work: list[ir.Block] = [tuple(node for node in body if not isinstance(node, (ir.FunctionDef, ir.ClassDef)))]
    found: set[int] = set()
    while work:
        for part in walk(work.pop(), True):
            name = part.id if isinstance(part, ir.Name) else part.attr if isinstance(part, ir.Attribute) else ""
            for function in defined.pop(name, ()):
                found.add(function.at)
                work.append(function.body)
    answer = frozenset(found)
    program.answers[_Run] = answer
    return answer


def _is_for_another(program: Program, site: Site) -> bool:
    """Whether a seed is not for the run: it is that of a worker, puts back what was there, or stands in a method of
    another file that nobody was seen to call (``seed`` of an environment)."""
    function = program.function_around(site)
    is_method = function is not None and [param.name for param in function.params[:1]] == ["self"]
    is_called = function is None or (site.path, function.at) in program.called
    is_uncalled = is_method and not is_called and site.path != next(iter(program.modules), "")
    return is_uncalled or _is_for_worker(program, site) or _restores(program, site)


def _is_for_ranks(program: Program, site: Site) -> bool:
    """Whether a seed stands where a function joins the process group, and trains nothing itself: so that all ranks
    begin with the same weights. What each of them draws may well differ."""
    function = program.function_around(site)
    parts = tuple(walk(function.body, False)) if function is not None else ()
    named = {last_name(part.callee) for part in parts if isinstance(part, ir.Call)}
    return "init_process_group" in named and not named & {"parameters", "backward", "DataLoader"}


def _is_beside(program: Program, seeded: list[tuple[Site, str]]) -> bool:
    """Whether the seeds are for something beside the run: for what an import brings, or for made-up data."""
    return _is_on_import(program, seeded) or _is_for_data(program, seeded)


def _is_for_data(program: Program, seeded: list[tuple[Site, str]]) -> bool:
    """Whether NumPy or `random` alone is seeded, and for the data: in a method of a dataset, or in a cell of a notebook
    or a function, with a number that is written down, before data is drawn, or with any number where the very next
    statement puts something into an order. The data is meant to be the same, what learns from it may vary. Who seeds
    both means the run."""
    return len({stream for _, stream in seeded}) == 1 and all(
        stream in {"numpy", "python"}
        and (
            is_of_dataset(program, site)
            or is_right_before_order(program, site, stream, of_next=True)
            or (
                (site.path.endswith(".ipynb") or program.function_around(site) is not None)
                and is_right_before_order(program, site, stream, of_any=True)
            )
        )
        for site, stream in seeded
    )


def _is_on_import(program: Program, seeded: list[tuple[Site, str]]) -> bool:
    """Whether importing other files is what seeds: for what they hold (a dataset, layers), not for the run."""
    first = next(iter(program.modules), "")
    return all(site.path != first and program.function_around(site) is None for site, _ in seeded)


def _are_for_one_draw(program: Program, seeded: list[tuple[Site, str]]) -> bool:
    """Whether NumPy or `random` is all that is seeded, with a number that is written down, right before it is drawn
    from, or with a number that is named after a split: that is meant to come out the same, not the run. What the steps
    of a training draw is the run."""
    drawn = _drawn_by_steps(program)
    return all(
        stream in {"numpy", "python"} - drawn
        and (is_right_before_order(program, site, stream) or bool(_SPLIT_WORDS.search(words(program).of(site))))
        for site, stream in seeded
    )


def _drawn_by_steps(program: Program) -> set[str]:
    """The generators that the iterations of the innermost loop around a step draw from."""
    nests = {step.loops for step in program.of(Step) if step.loops}
    return {stream for nest in nests for event in program.within(Drawn, nest) for stream in event.streams}


def _is_library(program: Program, *, is_demo: bool) -> bool:
    """Whether the file is there for others that import it: which generators a run seeds, their programs show.
    `is_demo`: also where it can be run, to show what it holds."""
    first = next(iter(program.modules), "")
    source = program.project.read(first) or b""
    name = first.removesuffix("/__init__.py").rpartition("/")[2].removesuffix(".py")
    if not name.isidentifier() or (b"__main__" in source and not is_demo):
        return False
    return any(True for _ in program.project.importers(name, first))


def _seeds_items(program: Program) -> bool:
    """Whether every seed is set in a loop: for each item, not for the run."""
    seeds = list(program.of(Seeded))
    return bool(seeds) and all(event.loops for event in seeds)


def _infers(program: Program) -> bool:
    """Whether the program puts a model into evaluation mode, and trains none: what it draws is for show."""
    switched = list(program.of(Mode))
    return bool(switched) and all(event.is_eval == "yes" for event in switched) and not any(program.of(Step))


def _that_matter(program: Program, sites: list[Site], stream: str, trains: Step | None) -> list[Site]:
    """The draws that a run may differ by: not those after the training, those for a picture, and those in workers of
    the loaders, where torch seeds NumPy and `random` from its own generator."""
    if stream != "torch":
        sites = without_workers(program, sites)
    if trains is not None:
        steps = list(program.of(Step))
        inside = {loop.key for step in steps for loop in step.loops}
        drawn = {
            event.site: event
            for event in program.of(Drawn)
            if stream in event.streams and not any(loop.key in inside for loop in event.loops)
        }
        sites = [site for site in sites if site not in drawn or not _comes_after(program, drawn[site], steps)]
    once = {event.site for event in program.of(Drawn) if any(_is_kept_in_file(program, g) for g in event.guards)}
    sites = [
        site for site in sites if site not in once and not makes_seed(program, site) and not _is_in_text(program, site)
    ]
    return [
        site
        for site in sites
        if not is_only_plotted(program, site) and not is_only_shown(program, site) and not _is_a_look(program, site)
    ]


def _is_a_look(program: Program, site: Site) -> bool:
    """Whether a cell of a notebook picks one thing, or a handful as its text says, outside of functions and of what
    trains: to look at it."""
    if not site.path.endswith(".ipynb") or program.function_around(site) is not None:
        return False
    node = words(program).node(site)
    name = last_name(node.callee) if isinstance(node, ir.Call) else ""
    if not isinstance(node, ir.Call) or name not in _PICKS:
        return False
    if any(program.within(Step, event.loops) for event in program.of(Drawn) if event.site == site and event.loops):
        return False
    counts = [arg.value for arg in node.args if arg.keyword in {"k", "size"}]
    counts += [arg.value for arg in node.args[_PICKS[name] :] if not arg.keyword]
    return all(isinstance(each, ir.Constant) and isinstance(each.value, int) and each.value <= _FEW for each in counts)


def _is_kept_in_file(program: Program, guard: Guard) -> bool:
    """Whether a condition asks for a file: what is drawn there is drawn once, and read back by later runs."""
    return bool(_FILE_WORDS.search(words(program).of(guard.site)))


def _comes_after(program: Program, draw: Drawn, steps: list[Step]) -> bool:
    """Whether a draw follows the last step of the same run. What nobody was seen to call (a dataset's items) is
    interpreted last, and may come at any time."""
    beside = [
        step for step in steps if draw.calls[:1] == step.calls[:1] or (is_run(program, draw) and is_run(program, step))
    ]
    return bool(beside) and all(step.order < draw.order for step in beside)


def _means_the_run(program: Program, found: Randomness) -> bool:
    """Whether a seed of NumPy or `random` is meant for the whole run, not for one split or dataset: it stands in the
    file that runs, or both are seeded together."""
    first = next(iter(program.modules), "")
    numpy, python = (
        {site.path for site in seeds_of(program, found, stream) if not _is_for_worker(program, site)}
        for stream in ("numpy", "python")
    )
    return first in numpy or first in python or "cuda" in found.seeds or bool(numpy & python)


def _restores(program: Program, site: Site) -> bool:
    """``np.random.set_state(before)`` puts back what was there; so does a function that seeds for a while."""
    function = program.function_around(site)
    nodes = [words(program).node(site), *(walk(function.body, False) if function is not None else ())]
    return any(isinstance(node, ir.Call) and (dotted(node.callee) or "").endswith(_PUTS_BACK) for node in nodes)


def _is_for_worker(program: Program, site: Site) -> bool:
    """Whether a seed stands in a function for the workers of a loader, by its name or that of its parameter."""
    function = program.function_around(site)
    names = [function.name, *(param.name for param in function.params)] if function is not None else []
    return any("worker" in name for name in names)


def _layer(program: Program, found: Randomness) -> Trace | None:
    """Where a layer is made: its weights are drawn from torch."""
    for obj in program.objects:
        row = program.knowledge.row(obj.name) if obj.name.startswith("torch.nn.") else None
        if row is not None and row.graph == "parameters" and obj.trace.site.path in found.layers:
            return obj.trace
    return None


def _note_none(program: Program, report: Report, found: Randomness) -> None:
    """A training script that seeds nothing."""
    steps = _trains_at_once(program)
    if not steps or steps[0].site.path.endswith(".ipynb") or _is_repeated(program, steps[0]):
        return
    draw = _first_draw(program, found)
    if draw is not None:
        report(
            draw.site,
            f"Nothing {{is}} seeded in {_whose(program, draw.site)}: no two runs can be compared. "
            "Seed torch, NumPy and `random`.",
            because=[draw, steps[0].trace],
            gaps=[Gap.CONVENTION],
            severity=Severity.NOTE,
        )


def _is_repeated(program: Program, step: Step) -> bool:
    """Whether the whole training runs several times, to report how much the results vary."""
    spoken = (words(program).node(loop.site) for loop in step.loops[:1])
    return any(isinstance(node, ir.For) and _RUN_WORDS.search(spelled(node.iter)) for node in spoken)


def _trains_at_once(program: Program) -> list[Step]:
    """The steps of a script that trains when it is run."""
    steps = [event for event in program.of(Step) if event.loops and is_run(program, event)]
    return steps if next(program.of(Backward), None) is not None else []


def _is_in_text(program: Program, site: Site) -> bool:
    """Whether a number is drawn for a string: a port, a name; also by a function that gives a text."""
    unit, function = program.unit(site.path), program.function_around(site)
    around = nodes_around(unit, site.at) if unit is not None else ()
    parts = [node.parts for node in around if isinstance(node, ir.Joined)]
    parts += [
        tuple(arg.value for arg in node.args) for node in around if isinstance(node, ir.Call) and _joins(node.callee)
    ]
    if any(getattr(part, "at", None) == site.at for each in parts for part in walk(each, True)):
        return True
    given = [node.value for node in walk(function.body, False) if isinstance(node, ir.Return)] if function else []
    return bool(given) and all(isinstance(value, ir.Call) and _joins(value.callee) for value in given)


def _joins(callee: ir.Expr) -> bool:
    """``"".join``."""
    if not isinstance(callee, ir.Attribute) or callee.attr != "join" or not isinstance(callee.value, ir.Constant):
        return False
    return isinstance(callee.value.value, str)


def _first_draw(program: Program, found: Randomness) -> Trace | None:
    for made in program.of(LoaderMade):
        if is_const(made.argument("shuffle"), True):
            return made.trace
    for stream in ("numpy", "python"):
        for site in draws_of(program, found, stream):
            if _is_in_text(program, site):
                continue
            return start(site, f"{STREAMS[stream]} is drawn from here")
    return None
