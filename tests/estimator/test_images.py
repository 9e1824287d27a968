"""Networks that read images: counted operation by operation, so the counts can be checked against published ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.api import RunConfig, estimate_words
from estimator.memory import candidates, images
from estimator.models.choose import choose_model
from estimator.models.feature_maps import Map, Tape
from estimator.models.images import ImageNet, cost, find, padded
from estimator.sourced import Origin

# Parameter counts of torchvision's own model table (docs: "Models and pre-trained weights"), and of YOLOv5's README.
EXACT = {
    "resnet18": 11_689_512, "resnet50": 25_557_032, "resnet152": 60_192_808, "resnext50_32x4d": 25_028_904,
    "wide_resnet50_2": 68_883_240, "vgg16": 138_357_544, "vgg16_bn": 138_365_992, "mobilenet_v2": 3_504_872,
    "efficientnet_b0": 5_288_548, "efficientnet_b3": 12_233_232, "convnext_tiny": 28_589_128,
    "densenet121": 7_978_856,
    "timm/resnet50d.ra2_in1k": 25_576_264, "regnet_x_800mf": 7_259_656, "regnet_x_3_2gf": 15_296_552,
}  # fmt: skip
NEAR = {
    "fasterrcnn_resnet50_fpn": 41_755_286, "maskrcnn_resnet50_fpn": 44_401_393, "retinanet_resnet50_fpn": 34_014_999,
    "fcos_resnet50_fpn": 32_269_600, "yolov5s": 7_225_885, "yolox_s": 8_968_255, "yolox_m": 25_326_495,
    "yolox_l": 54_208_895, "yolox_x": 99_071_455, "mmdet/yolox_tiny_8xb8-300e_coco": 5_055_855,
}  # fmt: skip


def net(name: str) -> ImageNet:
    found = find(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize(("name", "params"), EXACT.items())
def test_classifiers_have_exactly_the_published_parameters(name: str, params: int) -> None:
    assert cost(net(name), 224, 224, 1000).params == params


@pytest.mark.parametrize(("name", "params"), NEAR.items())
def test_detectors_have_the_published_parameters(name: str, params: int) -> None:
    assert cost(net(name), 224, 224, 80).params == pytest.approx(params, rel=0.01)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("mmdet/faster_rcnn/faster_rcnn_r50_fpn_1x_coco", "detect"),
        ("detectron2/COCO-InstanceSegmentation/mask_rcnn_R_101_FPN_3x", "detect"),
        ("mmseg/DeepLabV3+-R-101-D8", "segment"),
        ("mmseg/OCRNet-HRNetV2p-W18-Small", "segment"),
        ("torchvision/resnet50", "classify"),
        ("ultralytics/yolov5s-seg", "detect"),
    ],
)
def test_an_id_says_what_a_network_does(name: str, task: str) -> None:
    assert net(name).task == task


@pytest.mark.parametrize(
    "name",
    [
        "mmdet3d/hv_ssn_regnet-400mf_secfpn",
        "gpt2",
        "r5000",
        "my-resnet-like-thing",
        "",
        "unet_resnet152",
        "ssd512_vgg16",
        "vit_large_r50_s99",
        "openai/clip-resnet-50",
    ],
)
def test_an_id_that_does_not_say_its_network_has_none(name: str) -> None:
    assert find(name) is None


def test_a_map_that_two_operations_need_is_kept_once() -> None:
    tape, image = Tape(), Map(3, 8, 8)
    tape.conv(image, 4)
    tape.conv(image, 4)
    assert (tape.kept, tape.operands) == (3 * 64, 3 * 64)


def test_frozen_stages_keep_nothing() -> None:
    """Where a framework freezes the stem and the first stage, neither has a graph."""
    whole, frozen = cost(net("mmseg/FCN-R-50-D32"), 512, 512, 19), cost(net("mmdet/faster_rcnn_r50_fpn"), 512, 512, 80)
    assert whole.params == whole.trained
    assert frozen.params - frozen.trained == pytest.approx(225_344, rel=0.01)


def test_detectors_pad_to_the_stride_of_their_backbone() -> None:
    assert padded(net("mmdet/retinanet_r50_fpn"), 800, 1333) == (800, 1344)
    assert padded(net("resnet50"), 225, 225) == (225, 225)


def test_saved_maps_follow_batch_area_and_precision() -> None:
    def saved(**words: object) -> float:
        given = {"model": "resnet50", "micro_batch": 8, "image_size": 224, "precision": "fp32", "optimizer": "sgd"}
        result = estimate_words((), {**given, **words})
        return next(
            term.num_bytes for moment in result.timeline for term in moment.terms if term.name == "saved feature maps"
        )

    base = saved()
    assert saved(micro_batch=16) == pytest.approx(2 * base)
    assert saved(image_size=448) == pytest.approx(4 * base, rel=0.01)
    assert saved(precision="pure-bf16") == pytest.approx(base / 2, rel=0.05)
    assert saved(grad_checkpointing="full") < base / 2


def test_the_number_of_classes_a_segmenter_tells_apart_is_said_to_be_unknown() -> None:
    result = estimate_words((), {"model": "mmseg/UPerNet-R-50", "micro_batch": 4, "image_size": 512})
    assert "number of classes" in result.unknowns
    assert result.peak is not None
    assert result.peak.floor < result.peak.low <= result.peak.point <= result.peak.high


@pytest.mark.parametrize("name", ["facebook/m2m100_418M", "deepseek-ai/DeepSeek-V3.2"])
def test_layers_that_only_resemble_a_program_get_a_number_that_says_so(name: str) -> None:
    result = estimate_words((), {"model": name, "micro_batch": 1, "seq_len": 512})
    assert result.peak is not None
    assert "resemble" in result.model.source


def test_an_old_torch_keeps_what_a_segmenters_loss_read() -> None:
    """The log-probabilities of every pixel and class, and their input: measured slopes over classes need both."""
    words = {"model": "mmseg/CCNet-R-50-D8", "task": "train", "micro_batch": 4, "image_size": [512, 512]}
    run = RunConfig.from_document(words, Origin("test"))
    found = candidates.choices(run, choose_model(run).readings)
    setup = candidates.typical(found, "")
    assert found["keeps_scores"].probable == (True, False)
    less = images.outputs(replace(setup, keeps_scores=False)).num_bytes
    assert images.outputs(setup).num_bytes == 2 * less


def test_regions_leave_gradients_of_all_levels_in_fp32_before_the_proposals() -> None:
    """256 channels at strides of 4, 8, 16 and 32 of 800 x 1344 pixels; cast back to 16 bits under mixed precision."""
    numbers = 256 * (200 * 336 + 100 * 168 + 50 * 84 + 25 * 42)
    assert cost(net("mmdet/faster_rcnn_r50_fpn_1x_coco"), 800, 1344, 80).shared == numbers
    assert cost(net("mmdet/retinanet_r50_fpn_1x_coco"), 800, 1344, 80).shared == 0
    words = {"model": "mmdet/faster_rcnn_r50_fpn_1x_coco", "task": "train", "micro_batch": 2, "image_size": [800, 1344]}
    for precision, each in (("fp32", 4), ("amp-fp16", 6)):
        run = RunConfig.from_document({**words, "precision": precision}, Origin("test"))
        one = candidates.typical(candidates.choices(run, choose_model(run).readings), "Volta")
        assert images.shared_gradients(one).num_bytes == 2 * numbers * each


def test_mixed_precision_of_convolutions_has_copies_of_weights_predictions_and_layouts() -> None:
    name = "mmdet/retinanet_r50_fpn_1x_coco"
    words = {"model": name, "task": "train", "micro_batch": 2, "image_size": [800, 1344]}
    run = RunConfig.from_document({**words, "precision": "amp-fp16"}, Origin("test"))
    one = candidates.typical(candidates.choices(run, choose_model(run).readings), "Volta")
    each = cost(net(name), 800, 1344, 80)
    assert images.weight_copies(one).num_bytes == 2 * one.facts.params
    assert images.outputs(one).num_bytes == 2 * each.outputs * (4 + 2)
    assert images.layouts(one).num_bytes == 2 * 2 * each.widest * 2
    new = RunConfig.from_document({**words, "model": "resnet50", "precision": "amp-fp16"}, Origin("test"))
    assert not images.layouts(candidates.typical(candidates.choices(new, choose_model(new).readings), "")).num_bytes
