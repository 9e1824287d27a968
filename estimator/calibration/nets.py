"""Networks of public libraries that read pictures, video or sound, traced on tensors without data.

    python -m estimator.calibration nets [WORD ...]     # torch and the libraries: appends to nets.csv
    python -m estimator.calibration nets --table        # only writes ../data/nets.csv from it

``nets.toml`` says what is built. Of each, a forward pass in fp32 and a step under autocast are traced at one size; the
forward pass at a second where the network is built for a size or writes out attention maps (``has_maps``), and of
every tenth; of that at a third as well, which nothing is fitted on (``check``). What holds every word is traced, if it
has no rows yet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from analyzer.toml import parse_toml
from estimator.models import images
from estimator.models.nets import find

NETS = Path(__file__).with_name("nets.toml")
RAW = Path(__file__).with_name("nets.csv")
TABLE = Path(__file__).parents[1] / "data" / "nets.csv"
_BATCH = 16
_CHECK_EVERY = 10
_REGIMES = ("fp32", "autocast")


@dataclass(frozen=True, slots=True)
class Spec:
    """One network of ``nets.toml``. `sizes` are those of one sample: height and width, frames before them for video,
    samples of sound. `id` is what tables call it, `also` a pattern of what else names it; `make` is the library's own
    name, `given` are further arguments."""

    library: str
    id: str
    make: str
    task: str
    reads: str
    sizes: tuple[tuple[int, ...], ...]
    given: Mapping[str, Any]
    batch: int
    classes: int
    variant: str = ""
    also: str = ""
    is_forward_only: bool = False
    has_maps: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One row of ``nets.csv``: where it was traced, and the fields of `estimator.calibration.watch.Seen`; a forward
    pass alone has no `working` and `late`."""

    library: str
    id: str
    variant: str
    version: str
    regime: str
    role: str  # "step", "forward" or "check"
    batch: int
    units: int
    size: str
    params: int
    trained: int
    kept: int
    other: int
    copies: int
    operands: int
    outputs: int
    working: int
    late: int
    passing: int
    widest: int


_KINDS: dict[str, Callable[[str], Any]] = {
    item.name: int if item.type == "int" else str for item in fields(Point)
}  # fmt: skip


def specs() -> Iterator[Spec]:
    """Everything that ``nets.toml`` lists: of a group each name, with each of its letters where it has ``{}``."""
    for group in parse_toml(NETS.read_text(encoding="utf-8"))["group"]:
        for item in group["nets"]:
            own: dict[str, Any] = {"name": item} if isinstance(item, str) else item
            for letter in group.get("letters", [""]):
                yield _spec({**group, **own, "given": {**group.get("given", {}), **own.get("given", {})}}, letter)


def _spec(said: Mapping[str, Any], letter: str) -> Spec:
    name = said["name"].replace("{}", letter)
    make = said.get("make", name)
    return Spec(
        library=said["library"], id=said.get("id", name).replace("{}", letter),
        make=make.replace("{}", letter).replace("<name>", name), task=said["task"],
        reads=said.get("reads", "image"), sizes=_sizes(said["sizes"]), given=said["given"],
        batch=said.get("batch", _BATCH), classes=said.get("classes", 0), variant=said.get("variant", ""),
        also=said.get("also", ""), is_forward_only=said.get("is_forward_only", False),
        has_maps=said.get("has_maps", False),
    )  # fmt: skip


def _sizes(said: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple((each, each) if isinstance(each, int) else tuple(each) for each in said)


def rows() -> list[Point]:
    """The rows of ``nets.csv``."""
    if not RAW.exists():
        return []
    with RAW.open(encoding="utf-8", newline="") as handle:
        return [Point(**{name: _KINDS[name](cell) for name, cell in row.items()}) for row in csv.DictReader(handle)]


def trace_all(words: Sequence[str]) -> None:
    """Trace what holds every word and has no rows; append its rows."""
    done = {(point.library, point.id, point.variant) for point in rows()}
    for index, spec in enumerate(specs()):
        key = (spec.library, spec.id, spec.variant)
        if key in done or not all(word in " ".join(key) for word in words):
            continue
        done.add(key)
        try:
            found = list(_points(spec, has_check=index % _CHECK_EVERY == 0))
        except Exception as error:  # noqa: BLE001 # whatever a library raises: the net has no row, and it is told
            print("FAILED", *key, type(error).__name__, str(error)[:200].replace("\n", " "), flush=True)
            continue
        first = found[0]
        print(*key, first.params, f"{first.kept / first.batch / first.units:.0f} B", flush=True)
        is_new = not RAW.exists()
        with RAW.open("a", encoding="utf-8", newline="") as handle:
            writer = csv.DictWriter(handle, [item.name for item in fields(Point)], lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerows(asdict(point) for point in found)


def _points(spec: Spec, *, has_check: bool) -> Iterator[Point]:
    from estimator.calibration.building import build, seen

    def point(regime: str, role: str, batch: int, size: tuple[int, ...]) -> Point:
        counts = seen(spec, model, batch, size, is_mixed=regime == "autocast", has_backward=role == "step")
        return Point(
            library=spec.library, id=spec.id, variant=spec.variant, version=version, regime=regime, role=role,
            batch=batch, units=prod(size), size="x".join(map(str, size)), **counts,
        )  # fmt: skip

    first, *others = spec.sizes
    model, version, is_sized = build(spec, first)
    yield point("fp32", "forward", spec.batch, first)
    yield point("autocast", "forward" if spec.is_forward_only else "step", spec.batch, first)
    for size, role in zip(others, ("forward", "check"), strict=False):
        if is_sized or has_check or (spec.has_maps and role == "forward"):
            if is_sized:
                model, version, _ = build(spec, size)
            regimes = _REGIMES if role == "forward" else _REGIMES[len(spec.id) % 2 :][:1]
            for regime in regimes:
                batch = spec.batch if role == "forward" else spec.batch // 2 + 1
                yield point(regime, role, batch, size)


COLUMNS = (
    "id", "library", "variant", "also", "task", "reads", "params", "trained", "classes", "size", "base_fp32",
    "slope_fp32", "bend_fp32", "working_fp32", "passing_fp32", "base_amp", "slope_amp", "bend_amp", "working_amp",
    "passing_amp", "other",
    "operands", "outputs", "widest", "cast", "late", "source",
)  # fmt: skip
_NAMES = {"fp32": "fp32", "autocast": "amp"}


def table(points: Sequence[Point]) -> str:
    """The text of ``data/nets.csv``: per network the line through the sizes it was traced at."""
    found: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        found.setdefault((point.library, point.id, point.variant), []).append(point)
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for spec in specs():
        mine = found.get((spec.library, spec.id, spec.variant))
        if mine is not None:
            writer.writerow(_row(spec, mine))
    return out.getvalue()


def _row(spec: Spec, points: Sequence[Point]) -> dict[str, object]:
    first = points[0]
    each = first.batch * first.units
    found: dict[str, object] = {
        "id": spec.id, "library": spec.library, "variant": spec.variant, "also": spec.also, "task": spec.task,
        "reads": spec.reads, "params": first.params, "trained": first.trained, "classes": spec.classes or "",
        "size": first.size, "other": _short(first.other / each), "operands": _short(first.operands / each),
        "outputs": _short(first.outputs / each), "widest": _short(first.widest / each),
        "source": f"{first.version} {spec.make}",
    }  # fmt: skip
    stepped = next((point for point in points if point.regime == "autocast" and point.role == "step"), None)
    for regime, name in _NAMES.items():
        one, *more = (point for point in points if point.regime == regime and point.role != "check")
        base, slope, bend = curve(one, more[0]) if more else (0.0, one.kept / one.batch / one.units, 0.0)
        width = 4 if name == "fp32" else 2
        working = 2 * one.widest * width if stepped is None else max(stepped.working, 0) * width / 2
        found |= {
            f"base_{name}": round(base), f"slope_{name}": _short(slope), f"bend_{name}": _short(bend),
            f"working_{name}": _short(working / each), f"passing_{name}": _short(one.passing / each),
        }  # fmt: skip
        if name == "amp":
            found["cast"] = one.copies
    return found | {"late": stepped.late if stepped is not None and stepped.working > 0 else 0}


def curve(one: Point, other: Point) -> tuple[float, float, float]:
    """Bytes per sample, per sample and unit, and per sample and square of units, through two points: a line, or where
    that would begin below nothing (attention maps written out grow with the square) a parabola from nothing."""
    ys = [point.kept / point.batch for point in (one, other)]
    slope = (ys[0] - ys[1]) / (one.units - other.units)
    base = ys[0] - slope * one.units
    if base >= 0:
        return base, slope, 0.0
    bend = (ys[0] / one.units - ys[1] / other.units) / (one.units - other.units)
    return 0.0, ys[0] / one.units - bend * one.units, bend


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def section() -> list[str]:
    """The part of the page: sizes that nothing was fitted on, and the programs of backbones beside the traces."""
    points = rows()
    lines = ["", "## Networks that read pictures, video or sound", "", *_INTRO.splitlines(), ""]
    lines.append("| library | networks | held-out sizes | median deviation | worst |")
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    held = [(point, _deviation(point)) for point in points if point.role == "check"]
    for library in dict.fromkeys(point.library for point in points):
        count = len({(point.id, point.variant) for point in points if point.library == library})
        mine = [off for point, off in held if point.library == library]
        ends = f"{median(map(abs, mine)):.2%} | {max(mine, key=abs):+.1%}" if mine else " | "
        lines.append(f"| {library} | {count} | {len(mine)} | {ends} |")
    lines += ["", *_PROGRAMS.splitlines(), ""]
    lines.append("| network | sample | fp32: traced | counted | off | autocast | counted | off |")
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    return lines + [_beside(*each) for each in programmed(points)]


def _deviation(point: Point) -> float:
    net = next(net for net in find(f"{point.library}/{point.id.rpartition('/')[2]}") if net.variant == point.variant)
    regime = net.regime(_NAMES[point.regime])
    return point.batch * regime.kept(point.units) / point.kept - 1


def programmed(points: Sequence[Point]) -> list[tuple[str, str, tuple[float, float], tuple[float, float]]]:
    """Backbones that a program counts and that were traced: name, size, and of each precision the bytes of one sample,
    traced and counted. An id that says more than a backbone's name is none."""
    found: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for point in points:
        net = images.find(point.id)
        is_backbone = net is not None and net.head is None and images.is_whole(net)
        if net is None or not is_backbone or point.role == "check" or point.size.count("x") != 1:
            continue
        height, width = map(int, point.size.split("x"))
        one = images.cost(net, height, width, 1000, _NAMES[point.regime])
        counted = one.kept * (4 if point.regime == "fp32" else 2) + one.indices * 8
        key = (f"{point.library} {point.id}", point.size)
        found.setdefault(key, {})[point.regime] = (point.kept / point.batch, float(counted))
    return [(*key, each["fp32"], each["autocast"]) for key, each in found.items() if len(each) == len(_REGIMES)]


def _beside(name: str, size: str, *pairs: tuple[float, float]) -> str:
    cells = [cell for traced, counted in pairs for cell in _cells(traced, counted)]
    return f"| {name} | {size} | {' | '.join(cells)} |"


def _cells(traced: float, counted: float) -> tuple[str, str, str]:
    return f"{traced / 2**20:.1f} MiB", f"{counted / 2**20:.1f} MiB", f"{counted / traced - 1:+.1%}"


_INTRO = """What forward leaves for backward, of networks of public libraries (`estimator/calibration/nets.toml`), is a
line through what was traced at one or two sizes (`data/nets.csv`). *Held-out*: another size and batch of every tenth
network, which the line was not drawn through; computed over traced, less one. Kernels' workspaces are not traced.
Attention is the memory-efficient kernel; autocast and dropout are a GPU's. Known reason: a Swin pads its windows where
the size is no multiple of them, which the line does not know."""
_PROGRAMS = """Backbones that a layer program counts too (`estimator/models/backbones.py`; the programs count what
detectors and segmenters of other frameworks are made of). Nothing of a program is fitted on the traces."""
