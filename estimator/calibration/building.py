"""Networks of public libraries as `estimator.calibration.nets` traces them: built, fed and trained for one step."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from estimator.calibration import watch
from estimator.calibration.nets import Spec


def seen(
    spec: Spec, model: Any, batch: int, size: tuple[int, ...], *, is_mixed: bool, has_backward: bool
) -> dict[str, int]:
    """Parameters, and the counts of `estimator.calibration.watch.Seen`. The model's tensors lose their data."""
    weights = list(model.parameters())
    mode = next((each.fake_mode for each in weights if hasattr(each, "fake_mode")), None)
    if mode is None:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        watch.faked(model, mode)
    with warnings.catch_warnings(), mode:
        warnings.simplefilter("ignore")
        inputs = _READS[spec.reads](batch, size)
        found = watch.step(
            model, inputs, _loss, is_mixed=is_mixed, half=torch.float16, has_backward=has_backward
        )  # fmt: skip
    counts = {item.name: getattr(found, item.name) for item in fields(watch.Seen)}
    weights = list(model.parameters())
    trained = sum(each.numel() for each in weights if each.requires_grad)
    return {"params": sum(each.numel() for each in weights), "trained": trained, **counts}


def _loss(floats: Sequence[Any]) -> Any:
    return sum((each.float().mean() for each in floats[1:]), floats[0].float().mean())


def _pixels(batch: int, size: tuple[int, ...]) -> Any:
    return (torch.zeros(batch, 3, *size),)


def _sound(batch: int, size: tuple[int, ...]) -> Any:
    return (torch.zeros(batch, size[0]),)


def _spectrum(batch: int, size: tuple[int, ...]) -> Any:
    return (torch.zeros(batch, *size),)


def _frames_first(batch: int, size: tuple[int, ...]) -> Any:
    return (torch.zeros(batch, size[0], 3, *size[1:]),)


def _prompted(batch: int, size: tuple[int, ...]) -> Any:
    """A picture and one box in it, from which a mask is made."""
    return {
        "pixel_values": torch.zeros(batch, 3, *size), "input_boxes": torch.zeros(batch, 1, 4), "multimask_output": False
    }  # fmt: skip


_READS: dict[str, Callable[[int, tuple[int, ...]], Any]] = {
    "image": _pixels, "video": _pixels, "sound": _sound, "spectrum": _spectrum, "frames": _frames_first,
    "sam": _prompted,
}  # fmt: skip


def build(spec: Spec, size: tuple[int, ...]) -> tuple[Any, str, bool]:
    """The model in training mode, without the time that drawing its weights takes, its library with version, and
    whether it was built for that size alone."""

    class Undrawn(TorchFunctionMode):  # type: ignore[misc] # torch is not installed where types are checked
        def __torch_function__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            if getattr(func, "__name__", "") in ("normal_", "uniform_", "erfinv_", "trunc_normal_", "orthogonal_"):
                return args[0] if args else next(iter(kwargs.values()))  # type: ignore[union-attr]
            return func(*args, **(kwargs or {}))

    with warnings.catch_warnings(), Undrawn(), torch.no_grad():
        warnings.simplefilter("ignore")
        model, module, is_sized = _LIBRARIES[spec.library](spec, size)
    model.requires_grad_(True)
    if frozen := spec.given.get("frozen"):
        if hasattr(model, "freeze_feature_encoder"):
            model.freeze_feature_encoder()  # which else asks for gradients of the sound
        for name, each in model.named_parameters():
            if name.startswith(tuple(frozen)):
                each.requires_grad_(False)
    return model.train(), f"{module.__name__} {module.__version__}", is_sized


def _timm(spec: Spec, size: tuple[int, ...]) -> tuple[Any, Any, bool]:
    import timm

    try:
        return timm.create_model(spec.make, img_size=size[0]), timm, True
    except TypeError:
        return timm.create_model(spec.make), timm, False


def _torchvision(spec: Spec, size: tuple[int, ...]) -> tuple[Any, Any, bool]:
    import torchvision

    given = {key: value for key, value in spec.given.items() if key != "parts"}
    if "image_size" in given:
        given["image_size"] = size[0]
    if "detection" in spec.variant or spec.task == "detect":
        model = torchvision.models.get_model(spec.make, weights=None, weights_backbone=None)
        if spec.given.get("has_frozen_norms"):
            _freeze_norms(model.backbone.body)
        return _detector(model), torchvision, False
    if spec.task == "segment":
        return torchvision.models.get_model(spec.make, weights=None, weights_backbone=None), torchvision, False
    return torchvision.models.get_model(spec.make, weights=None, **given), torchvision, "image_size" in given


def _freeze_norms(parent: Any) -> None:
    """As with weights of ImageNet: statistics and weights of batch norms are buffers."""
    import torchvision

    for name, child in list(parent.named_children()):
        if isinstance(child, torch.nn.BatchNorm2d):
            setattr(parent, name, torchvision.ops.FrozenBatchNorm2d(child.num_features))
        _freeze_norms(child)


def _detector(model: Any) -> Any:
    """A detector of torchvision up to what its loss reads: choosing boxes depends on numbers, what is kept does not."""

    class Heads(torch.nn.Module):  # type: ignore[misc] # torch is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, images: Any) -> Any:
            features = model.backbone(images)
            maps = [features] if isinstance(features, torch.Tensor) else list(features.values())
            if not hasattr(model, "roi_heads"):
                return model.head(maps)
            found = list(model.rpn.head(maps))
            rois = model.roi_heads
            regions = rois.fg_bg_sampler.batch_size_per_image
            positive = int(regions * rois.fg_bg_sampler.positive_fraction)

            def pooled(count: int, side: int) -> Any:  # what roi_align makes of the maps, which it does not keep
                channels = maps[0].shape[1]
                return (
                    maps[0]
                    .mean((0, 2, 3))
                    .expand(images.shape[0] * count, channels)
                    .contiguous()[..., None, None]
                    .repeat(1, 1, side, side)
                )

            found.append(rois.box_predictor(rois.box_head(pooled(regions, rois.box_roi_pool.output_size[0]))))
            for kind in ("mask", "keypoint"):
                if getattr(rois, f"{kind}_head", None) is not None:
                    side = getattr(rois, f"{kind}_roi_pool").output_size[0]
                    head, predictor = getattr(rois, f"{kind}_head"), getattr(rois, f"{kind}_predictor")
                    found.append(predictor(head(pooled(positive, side))))
            return found

    return Heads()


def _transformers(spec: Spec, size: tuple[int, ...]) -> tuple[Any, Any, bool]:
    import transformers

    given = {key: value for key, value in spec.given.items() if key not in ("frozen", "sized", "config", "has_no_sdpa")}
    if sized := spec.given.get("sized"):
        given[sized] = size[-1]
    config = getattr(transformers, spec.given["config"])(**given)
    if not spec.given.get("has_no_sdpa"):
        config._attn_implementation = "sdpa"
    model = getattr(transformers, spec.make)._from_config(config)
    return model, transformers, bool(sized)


def _ultralytics(spec: Spec, size: tuple[int, ...]) -> tuple[Any, Any, bool]:
    import ultralytics

    is_transformer = spec.make.startswith("rtdetr")
    model = (ultralytics.RTDETR(spec.make) if is_transformer else ultralytics.YOLO(spec.make, verbose=False)).model

    class Read(torch.nn.Module):  # type: ignore[misc] # torch is not installed where types are checked
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, images: Any) -> Any:
            return _without_maps(model(images))

    return Read(), ultralytics, False


def _without_maps(result: Any) -> Any:
    """What a loss reads of a head's result, without the maps that it returns beside."""
    if isinstance(result, dict):
        return {name: _without_maps(each) for name, each in result.items() if name != "feats"}
    return result


def _smp(spec: Spec, size: tuple[int, ...]) -> tuple[Any, Any, bool]:
    smp = importlib.import_module("segmentation_models_pytorch")
    arch, _, encoder = spec.make.partition(":")
    return getattr(smp, arch)(encoder_name=encoder, encoder_weights=None, classes=spec.classes or 1), smp, False


_LIBRARIES: dict[str, Callable[[Spec, tuple[int, ...]], tuple[Any, Any, bool]]] = {
    "timm": _timm, "torchvision": _torchvision, "transformers": _transformers, "ultralytics": _ultralytics,
    "segmentation_models_pytorch": _smp,
}  # fmt: skip
