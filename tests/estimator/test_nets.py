"""Networks of public libraries that were traced: what an id names, how the counts grow, and what stays a floor."""

from __future__ import annotations

from typing import Any

import pytest

from analyzer.api import CallSite
from estimator import tables
from estimator.api import estimate as estimate_run
from estimator.calibration import nets as traces
from estimator.models import images
from estimator.models.choose import choose_model
from estimator.models.known import find_image_nets
from estimator.models.nets import TracedNet, find
from estimator.options import options_for
from estimator.report import Estimate
from estimator.resolve import frameworks
from estimator.resolve.script import configs_from
from estimator.runconfig import RunConfig
from estimator.sourced import Origin
from tests.estimator.launch.sites import call
from tests.estimator.launch.trees import Tree

# Parameters as the publishers state them: torchvision's model table, ultralytics' and the papers' in millions.
EXACT = {
    "torchvision/efficientnet_v2_s": 21_458_488, "torchvision/efficientnet_v2_l": 118_515_272,
    "torchvision/swin_t": 28_288_354, "torchvision/swin_b": 87_768_224, "torchvision/mobilenet_v3_large": 5_483_032,
    "torchvision/regnet_y_3_2gf": 19_436_338,
}  # fmt: skip
IN_MILLIONS = {
    "yolov8n.pt": 3.2, "yolov8x": 68.2, "ultralytics/yolo11m": 20.1, "yolov9c": 25.3, "facebook/sam-vit-base": 93.7,
    "facebook/sam-vit-huge": 641, "nvidia/segformer-b0-finetuned-ade-512-512": 3.8,
    "nvidia/segformer-b5-finetuned-cityscapes-1024-1024": 84.7, "microsoft/swin-tiny-patch4-window7-224": 28.3,
    "timm/swin_base_patch4_window7_224.ms_in22k_ft_in1k": 87.8, "facebook/wav2vec2-base-960h": 94.4,
    "facebook/hubert-base-ls960": 94.4, "MCG-NJU/videomae-base": 86.5, "torchvision/r3d_18": 33.4,
    "timm/maxvit_tiny_tf_224.in1k": 30.9, "facebook/convnextv2-tiny-1k-224": 28.6, "ssd300_vgg16": 35.6,
}  # fmt: skip


def words(**given: Any) -> RunConfig:
    return RunConfig.from_document(given, Origin("test"))


def estimate(**given: Any) -> Estimate:
    return estimate_run(words(**given))


@pytest.mark.parametrize(("name", "params"), EXACT.items())
def test_an_id_has_exactly_the_published_parameters(name: str, params: int) -> None:
    assert find(name)[0].params == params


@pytest.mark.parametrize(("name", "millions"), IN_MILLIONS.items())
def test_an_id_has_about_the_published_parameters(name: str, millions: float) -> None:
    assert find(name)[0].params / 1e6 == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize("name", ["yolov8", "swin", "resnet50_of_my_own", "unet", "gpt2", "", "/", "sam.pt.pt"])
def test_words_that_name_no_network_find_none(name: str) -> None:
    assert find(name) == ()


def test_the_table_is_what_the_traces_make_of_it() -> None:
    written = (tables._DATA / "nets.csv").read_text("utf-8")
    assert written == traces.table(traces.rows())


def test_sizes_that_nothing_was_fitted_on_are_met() -> None:
    found = {(net.library, net.name, net.variant): net for each in _every() for net in each}
    checks = [point for point in traces.rows() if point.role == "check"]
    assert len(checks) >= 4
    for point in checks:
        regime = found[point.library, point.id, point.variant].regime("amp" if point.regime == "autocast" else "fp32")
        kept = point.batch * regime.kept(point.units)
        assert kept == pytest.approx(point.kept, rel=0.05), point  # windows of Swin are padded at some sizes


def _every() -> list[tuple[TracedNet, ...]]:
    names = dict.fromkeys((point.library, point.id) for point in traces.rows())
    return [find(f"{library}/{name.rpartition('/')[2]}") for library, name in names]


def test_half_precision_keeps_least() -> None:
    """Autocast may keep more than fp32: constants of frozen norms are fp32, and every reader casts what they make."""
    for net in (net for each in _every() for net in each):
        half, amp, full = (net.regime(name).slope for name in ("half", "amp", "fp32"))
        assert half <= amp * 1.02, net
        assert half <= full, net


@pytest.mark.parametrize("precision", ["fp32", "amp"])
@pytest.mark.parametrize("name", ["fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn"])
def test_the_program_of_a_detector_keeps_what_was_traced(name: str, precision: str) -> None:
    program, (traced,) = images.find(name), find(name)
    assert program is not None
    one = images.cost(program, *traced.side, 91, precision)
    size = 4 if precision == "fp32" else 2
    kept = traced.regime(precision).kept(traced.side[0] * traced.side[1])
    assert one.kept * size + one.indices * 8 == pytest.approx(kept, rel=0.03)


def test_what_the_programs_count_is_what_the_traces_keep() -> None:
    """Backbones that both know: the programs count the rest of what ids can name."""
    found = traces.programmed(traces.rows())
    assert len(found) >= 3
    for name, size, *pairs in found:
        for traced, counted in pairs:
            assert counted == pytest.approx(traced, rel=0.05), (name, size)


@pytest.mark.parametrize("name", ["yolov8n", "torchvision/efficientnet_v2_s", "facebook/sam-vit-base"])
def test_what_need_not_be_kept_is_not_in_the_floor(name: str) -> None:
    """Checkpointing may recompute everything, and below what is trained nothing is kept."""
    common = {"model": name, "micro_batch": 16, "image_size": 640, "precision": "fp16", "optimizer": "adamw"}
    plain = estimate(**common).peak
    assert plain is not None
    assert plain.floor <= plain.low
    changes: list[dict[str, str]] = [{"grad_checkpointing": "full"}, {"method": "freeze"}]
    for change in changes:
        found = estimate(**common, **change).peak
        assert found is not None
        assert found.floor < 0.5 * plain.low


def test_what_an_id_is_trained_as_may_be_a_part() -> None:
    """Of SAM people train all or the mask decoder alone: the floor is that of the decoder."""
    whole, part = find_image_nets("facebook/sam-vit-base")
    assert (whole.frozen, part.frozen > 80_000_000) == (0, True)
    found = estimate(model="facebook/sam-vit-base", micro_batch=8, precision="fp32", optimizer="adamw")
    assert found.peak is not None
    assert found.peak.floor < 0.1 * found.peak.point


def test_more_pixels_and_samples_keep_more() -> None:
    """A line through the traces: four times the pixels keep about four times as much."""
    small = choose_model(words(model="yolov8n")).readings[0]
    assert small.image_net is not None
    one, four = (images.cost(small.image_net, side, side, 80, "amp").kept for side in (320, 640))
    assert four == pytest.approx(4 * one, rel=0.02)


def test_sound_of_unknown_length_has_an_interval() -> None:
    found = estimate(model="facebook/wav2vec2-base", micro_batch=8, precision="fp16", optimizer="adamw")
    assert found.peak is not None
    assert found.peak.high > 1.5 * found.peak.low
    known = estimate(model="facebook/wav2vec2-base", micro_batch=8, precision="fp16", optimizer="adamw", seq_len=160000)
    assert known.peak is not None
    assert known.peak.high / known.peak.low < found.peak.high / found.peak.low


def test_a_model_of_text_reads_no_table_of_nets(monkeypatch: pytest.MonkeyPatch) -> None:
    read = tables.rows

    def refusing(name: str, required: Any = ()) -> Any:
        assert name != "nets"
        return read(name, required)

    monkeypatch.setattr("estimator.models.nets.rows", refusing)
    assert estimate(model="openai-community/gpt2", micro_batch=8, seq_len=512).peak is not None


CALLS: list[tuple[CallSite, str]] = [
    (call("timm.create_model", _0="swin_base_patch4_window7_224", pretrained=True), "swin_base_patch4_window7_224"),
    (call("torchvision.models.efficientnet_v2_s", weights="DEFAULT"), "efficientnet_v2_s"),
    (call("torchvision.models.video.r3d_18"), "r3d_18"),
    (call("torchvision.models.get_model", _0="swin_t", weights=None), "swin_t"),
    (call("ultralytics.YOLO", _0="yolov8n.pt"), "yolov8n.pt"),
    (call("transformers.AutoModel.from_pretrained", _0="facebook/sam-vit-base"), "facebook/sam-vit-base"),
    (call("segmentation_models_pytorch.Unet", encoder_name="resnet50"), "unet_resnet50"),
    (call("segmentation_models_pytorch.Unet"), "unet_resnet34"),
]


@pytest.mark.parametrize(("site", "name"), CALLS, ids=[name for _, name in CALLS])
def test_calls_name_the_network(site: CallSite, name: str) -> None:
    (run,) = configs_from(frameworks.gather((site, call("torch.optim.AdamW"))), Tree({}))
    assert run.model.value == name
    assert find(name)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("facebook/wav2vec2-base", "8 samples x"), ("MCG-NJU/videomae-base", "8 samples x"), ("swin_t", "8 images x")],
)
def test_what_is_counted_has_its_own_name(name: str, unit: str) -> None:
    found = estimate(model=name, micro_batch=8, gpu="A100-80GB", precision="amp-fp16", optimizer="adamw")
    formulas = [term.formula for moment in found.timeline for term in moment.terms if term.name == "predictions"]
    assert formulas
    assert all(formula.startswith(unit) for formula in formulas)


@pytest.mark.parametrize("name", ["facebook/wav2vec2-base", "facebook/sam-vit-base"])
def test_a_network_that_is_named_is_not_asked_for(name: str) -> None:
    """What is open of it is how much of it is trained, which no `--model` would say."""
    found = estimate(model=name, gpu="T4")
    assert "whether all of the network is trained" in found.unknowns
    assert "--model" not in options_for(found.unknowns)
