"""How much one forward pass reads: samples, tokens, pixels and frames, where a run says them and where it does not."""

from __future__ import annotations

from dataclasses import replace

from estimator.memory.choice import Choice, Choices, choose, fixed, undecided
from estimator.models import images
from estimator.models.facts import ModelFacts
from estimator.models.nets import TracedNet
from estimator.models.pixels import PixelNet
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Unknown

_SHORT = 64  # tokens: the shortest longest sample of a batch that is padded to it
_USUAL_PATCHES = (16, 14, 32)  # sides of a ViT's patches, where neither the table nor the id says which


def extents(run: RunConfig, facts: ModelFacts, is_training: bool) -> Choices:
    """Samples per device, and how long or large each is."""
    batch = undecided(1, 4, cheapest=(1,)) if is_training else undecided(1, cheapest=(1,))
    limit = facts.max_position or 4096
    lengths = sorted({min(limit, length) for length in ((512, 1024, 2048) if is_training else (512, 2048, 4096))})
    length = undecided(lengths[len(lengths) // 2 if is_training else 0], *lengths, cheapest=(min(limit, _SHORT),))
    if facts.image_net is not None:
        return {
            **_image(run, facts.image_net),
            "micro_batch": choose(run.micro_batch, batch, batch),
            "seq_len": _units(run, facts.image_net),
        }
    if facts.local is not None:
        return {"micro_batch": choose(run.micro_batch, batch, batch), "seq_len": fixed(1)}
    if facts.kind == "dit":
        return {**_latent(run, facts, is_training), "micro_batch": choose(run.micro_batch, batch, batch)}
    if facts.kind == "vit":
        length = _image_tokens(run, facts)
    elif not is_training and run.max_context.is_known:
        length = Choice(run.max_context.value)
    else:
        length = choose(run.seq_len, length, length)
        if run.seq_len.is_known and run.packing != UNSET and run.packing.value is not True:
            length = Choice(length.typical, (length.typical,), (min(length.typical, _SHORT),))
    found = {"micro_batch": choose(run.micro_batch, batch, batch), "seq_len": length}
    return found | _targets(facts, length) if facts.kind == "encdec" else found


_USUAL_TARGET = 128  # max_target_length of transformers' examples for summaries and translation


def _targets(facts: ModelFacts, length: Choice) -> Choices:
    """What a decoder reads beside its encoder: a run says one length. Of speech it is the text's, for the sound is
    padded to what the encoder always reads."""
    if facts.source_tokens:
        target = length if length.is_open is False else undecided(_USUAL_TARGET, 448, cheapest=(16,))
        return {"seq_len": fixed(facts.source_tokens), "target_len": target}
    shorter, longest = min(_USUAL_TARGET, length.typical), max(length.probable, default=length.typical)
    return {"target_len": undecided(shorter, longest, cheapest=(min(16, shorter),))}


SECOND = 16_000  # samples of sound, which every encoder of speech reads
_USUAL_SECONDS = (10, 5, 20)
_LEAST_SAMPLES = 4000  # a shorter length counts something else: tokens, or seconds


def counts_samples(run: RunConfig, net: images.AnyNet) -> bool:
    """Whether a length that is given is that of the sound a network reads."""
    length = run.seq_len.value
    is_sound = isinstance(net, TracedNet) and net.reads == "sound"
    return is_sound and not isinstance(length, Unknown) and length >= _LEAST_SAMPLES


def _units(run: RunConfig, net: images.AnyNet) -> Choice:
    """Frames of a video and samples of sound; of a picture there is one."""
    if not isinstance(net, TracedNet) or net.reads not in ("video", "frames", "sound"):
        return fixed(1)
    if net.reads != "sound":
        return fixed(net.frames if isinstance(run.frames.value, Unknown) else run.frames.value)
    if counts_samples(run, net):
        return fixed(run.seq_len.value)
    return undecided(*(seconds * SECOND for seconds in _USUAL_SECONDS), cheapest=(SECOND,))


def _image(run: RunConfig, net: images.AnyNet) -> Choices:
    """Pixels of one image, and classes: the id names neither. Without a size that at which a network is trained:
    ImageNet's, COCO's or a camera's, or what it was traced at."""
    usual = [net.side] if isinstance(net, TracedNet) else [images.padded(net, *one) for one in _USUAL_SIZES[net.task]]
    if isinstance(net, TracedNet) and net.reads in ("sound", "spectrum"):
        sizes: Choice = fixed(net.side)
    elif not isinstance(run.image_size.value, Unknown):
        sizes = fixed(images.padded(net, *run.image_size.value))
    else:
        sizes = undecided(*usual, cheapest=((64, 64),))
    classes = images.classes_of(net, sizes.typical) if run.image_size.is_known else images.classes_of(net)
    return {"image": sizes, "classes": Choice(classes[0], classes, (2,), len(classes) > 1, is_even=len(classes) > 1)}


_USUAL_SIZES = {
    "classify": ((224, 224),),
    "detect": ((800, 1333), (640, 640), (900, 1600)),
    "segment": ((512, 512), (512, 1024)),
}


_LATENT_SIDE = 16  # pixels per token: an autoencoder divides by eight, patches by two (SD3, FLUX, CogVideoX)
_PROMPT_TOKENS = 512
_TEXT_ENCODER = 4_900_000_000  # T5-XXL, which most transformers of this size read; smaller ones read CLIP
_LARGE_ENCODER = 1_000_000_000  # parameters: CLIP's have less, T5 and language models more
_SMALL_ENCODERS = 350_000_000  # CLIP's text encoders and the autoencoder


def _latent(run: RunConfig, facts: ModelFacts, is_training: bool) -> Choices:
    """Tokens of a latent image or video beside the prompt's, and the frozen models on the same device: an id names
    neither."""
    net = facts.pixel_net
    if net is not None:
        return _positions(run, net, is_training)
    if run.seq_len.is_known:
        length = Choice(run.seq_len.value)
    elif not isinstance(run.image_size.value, Unknown):
        height, width = run.image_size.value
        tokens = max(height // _LATENT_SIDE, 1) * max(width // _LATENT_SIDE, 1) + _PROMPT_TOKENS
        length = undecided(tokens, 13 * tokens, cheapest=(tokens - _PROMPT_TOKENS,))
    else:
        length = undecided(4096, 1024, 17_776, cheapest=(64,))
    beside = _TEXT_ENCODER if facts.params > 1_500_000_000 else _SMALL_ENCODERS
    return {"seq_len": length, "companions": undecided(0, beside)}


_USUAL_IMAGES = ((512, 512), (1024, 1024))
_USUAL_VIDEOS = ((512, 768), (480, 720), (480, 832))  # of LTX-Video, CogVideoX and Wan, in their model cards
_USUAL_FRAMES = (49, 81)  # of CogVideoX and Wan


def _positions(run: RunConfig, net: PixelNet, is_training: bool) -> Choices:
    """Latent positions of one sample, and the text encoder and autoencoder beside: held by a pipeline, and by a
    training that has not computed their results before."""
    sizes: tuple[tuple[int, int], ...] = _USUAL_VIDEOS if net.stride else _USUAL_IMAGES
    frames: tuple[int, ...] = _USUAL_FRAMES if net.stride else (1,)
    if not isinstance(run.image_size.value, Unknown):
        sizes = (run.image_size.value,)
    if not isinstance(run.frames.value, Unknown):
        frames = (run.frames.value,)
    counts = [net.positions(*size, count) for size in sizes for count in frames]
    counts = list(dict.fromkeys(counts))
    length = fixed(counts[0]) if len(counts) == 1 else undecided(*counts, cheapest=(net.positions(256, 256, 1),))
    beside = net.text + net.coder
    if is_training:
        found = undecided(0, net.coder, beside, cheapest=(0,))
        if net.text < _LARGE_ENCODER:  # what CLIP encodes is encoded batch by batch, what T5 does mostly before
            found = replace(found, is_even=True)
        return {"seq_len": length, "companions": found}
    return {"seq_len": length, "companions": undecided(beside, net.text, 0, cheapest=(0,))}


def _image_tokens(run: RunConfig, facts: ModelFacts) -> Choice:
    """Patches of the image and one class token; without a size, the usual 224 or what the model was trained on."""
    patches = (facts.patch,) if facts.patch else _USUAL_PATCHES
    if not isinstance(run.image_size.value, Unknown):
        height, width = run.image_size.value
        counts = [max((height // patch) * (width // patch), 1) + 1 for patch in patches]
    else:
        sides = dict.fromkeys((min(facts.image or 224, 224), facts.image or 224))
        counts = [max(side // patch, 1) ** 2 + 1 for side in sides for patch in patches]
    return fixed(counts[0]) if run.image_size.is_known and facts.patch else undecided(*counts)
