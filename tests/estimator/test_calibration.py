"""The traces of real models: the page is theirs, and the static model stays close to them."""

from __future__ import annotations

from statistics import median

import pytest

from estimator.calibration.compare import PAGE, cases, compared, page
from estimator.calibration.variants import VARIANTS
from estimator.models.known import find_model


def test_the_page_is_written_from_the_traces() -> None:
    """Regenerate with ``python -m estimator.calibration page``."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_traced_model_is_one_of_the_table() -> None:
    assert [find_model(case["id"]) is not None for case in cases()] == [True] * len(cases())


@pytest.mark.parametrize("variant", [variant.name for variant in VARIANTS])
def test_what_a_layer_keeps_is_counted(variant: str) -> None:
    """Medians within six percent: a forgotten tensor of a layer's width would show. Not of LayerNorm under autocast
    with adapters: its result is fp32 then, and no run config of adapters tells."""
    of_variant = [each for each in compared() if each.variant == variant]
    if variant == "LoRA on bf16 under autocast":
        of_variant = [each for each in of_variant if (facts := find_model(each.model)) and facts.is_rms_norm]
    found = [each.deviations for each in of_variant]
    assert found
    assert median(abs(kept) for kept, _ in found) < 0.06
    assert median(abs(peak) for _, peak in found) < 0.06  # of few layers: the logits that the page's intro names


def test_the_whole_peak_of_other_sizes_and_optimizers_is_counted() -> None:
    """Of the optimizers whose traced step is the one that is counted: at every size, on lists and tensor by tensor."""
    from estimator.calibration import compare, sweep

    variants = {variant.name: variant for variant in VARIANTS}
    found: dict[str, list[float]] = {}
    for point, peak in sweep.traced():
        words = (point.model, variants[point.variant], sweep.plan()["layers"], point.batch, point.seq, point.optimizer)
        off = sweep.computed(compare._setup(*words), point.step) / peak - 1
        found.setdefault(f"{point.optimizer}, {point.step}", []).append(off)
    assert {point.cells for point, _ in sweep.traced()} == {point.cells for point in sweep.points()}
    for name in ("adamw, lists", "adamw, one by one", "adagrad, lists", "adagrad, one by one", "rmsprop, lists"):
        assert median(map(abs, found[name])) < 0.03, name
        assert max(map(abs, found[name])) < 0.16, name
