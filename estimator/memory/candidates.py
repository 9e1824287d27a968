"""From a run config to decided runs: what an unknown or absent word plausibly is.

Three cases, never mixed. A *known* word has one value. An *absent* word (nobody wrote it) has the library's default,
except where there is none. An *unknown* word (somebody wrote it and we cannot read it) may be anything listed:
`probable` values span the interval, `cheapest` ones join them for the floor.
"""

from __future__ import annotations

import re
from dataclasses import replace

from estimator.memory.choice import Choice, Choices, choose, fixed, undecided
from estimator.memory.extents import extents
from estimator.memory.ranks import ranks
from estimator.memory.setup import ADAPTERS, READS_LOGPS, WITH_REFERENCE, Setup
from estimator.models import images
from estimator.models.facts import ModelFacts
from estimator.runconfig import UNSET, RunConfig
from estimator.sourced import Unknown

_MLP_MODULE = re.compile(r"all|gate|up_proj|down_proj|fc|dense|mlp|w[123]\b")
"""Module names that mean the feed-forward part gets adapters too."""

_WITHOUT_CACHE = ("dit", "encoder", "vit", "image")
"""Kinds of model that write no text: a step of denoising, or an answer, is a forward pass without a cache."""


def choices(run: RunConfig, readings: tuple[ModelFacts, ...]) -> Choices:
    """What every word of the run may be, with the models it may be about."""
    task = _task(run)
    if task == "generate" and readings[0].kind in _WITHOUT_CACHE:
        task = "infer"
    is_training = task == "train"
    method = _method(run, is_training)
    world = _world(run)
    readings = _headed(run, readings)
    found: Choices = {
        "facts": Choice(readings[0], readings, (), len(readings) > 1),
        "task": fixed(task),
        "method": _possible_methods(run, method, is_training),
        **extents(run, readings[0], is_training),
        **_numbers(run, is_training, method, readings[0]),
        "quantization": _quantization(run, readings[0], is_training, method),
        **ranks(run, world, readings[0], is_training=is_training),
        **_switches(run, is_training, method),
        **_beside(run, is_training, method, readings),
        "keeps_gradients": _gradients_kept(run, readings[0], method) if is_training else fixed(False),
        "is_activation_fused": fixed(False),
        "loads_whole": fixed(False),
        "whole_gradients": fixed(False),
        "repeats_keys": fixed(False),
        "keeps_quantized_inputs": fixed(False),
        "autocasts": _autocasting(readings[0]) if is_training and method != "full" else fixed(False),
        "stores_fp8": fixed(False),
        "copies_layouts": fixed(False),
        "keeps_fp8": fixed(False),
        "expands_latent": Choice(False, (False, True)) if task == "generate" and readings[0].latent else fixed(False),
        "keeps_scores": fixed(False),
    }
    if readings[0].local is not None:  # the repository's own forward pass says how
        found |= {"attention": fixed("eager"), "shifts_logits": fixed(False), "loss_impl": fixed("full")}
    image = readings[0].image_net
    if is_training and image is not None:
        found |= _of_their_time(image)
    found["attention"] = _attention(run, readings[0], found["attention"])
    if is_training and any(facts.activation == "gelu_new" for facts in readings):
        found["is_activation_fused"] = Choice(
            False, (False, True), is_even=True
        )  # transformers writes it out, others do not
    likely = typical(found, "")
    found["whole_gradients"] = _accumulation(run, likely)
    found["loads_whole"] = _loading(run, likely, has_whole_gradients=found["whole_gradients"].is_even)
    return {**found, **_implementations(likely)}


def _attention(run: RunConfig, facts: ModelFacts, said: Choice) -> Choice:
    """How scores are computed, where the model leaves a choice."""
    if not facts.has_attention:
        return fixed("sdpa")
    if facts.relative_span:
        return fixed("eager")  # transformers has no other for them
    if facts.biases_scores and not run.attention.is_known:  # T5: sdpa since 2025
        return replace(undecided("eager", "sdpa", cheapest=("flash",)), is_even=True)
    if facts.pixel_net is not None and facts.pixel_net.scores and not run.attention.is_known:  # before torch 2: eager
        return replace(undecided("sdpa", "eager", cheapest=("flash",)), is_even=True)
    if facts.caps_scores and said.typical == "sdpa":
        return Choice("eager", ("eager",), ("flash",))  # scaled_dot_product_attention has no cap
    return said


def _of_their_time(net: images.AnyNet) -> Choices:
    """Frameworks that most people run with a torch of their time: its softmax kept its input, which a segmenter has
    over every pixel, and cuDNN 7 copied 16-bit maps to another layout for tensor cores; later ones do for some."""
    if not isinstance(net, images.ImageNet):
        return {}
    is_old = images.is_of_its_time(net)
    found = {"copies_layouts": Choice(is_old, (True, False))}
    return found | ({"keeps_scores": Choice(True, (True, False))} if is_old and net.task == "segment" else {})


def _autocasting(facts: ModelFacts) -> Choice:
    """diffusers' scripts for pictures train adapters under accelerate's autocast; those for videos (finetrainers,
    diffusion-pipe) hold everything in 16 bits and mostly do without."""
    if facts.pixel_net is None:
        return fixed(False)
    is_video = bool(facts.pixel_net.stride)
    return Choice(not is_video, (True, False), is_even=not is_video)


def _headed(run: RunConfig, readings: tuple[ModelFacts, ...]) -> tuple[ModelFacts, ...]:
    """A reward model's head gives one number (AutoModelForSequenceClassification)."""
    return tuple(facts.without_head for facts in readings) if run.objective.value == "reward" else readings


def _implementations(likely: Setup) -> Choices:
    """What versions of the same library do differently, where it matters. scaled_dot_product_attention takes grouped
    keys since torch 2.5; before, and with a mask still, transformers repeats them. FlashAttention always took them."""
    facts = likely.facts
    is_grouped = likely.is_training and likely.attention == "sdpa" and facts.kv_width < facts.q_width
    is_four_bit = likely.is_training and (likely.quantization or "").startswith("nf4")
    undecided, settled = Choice(False, (False, True), is_even=True), fixed(False)
    is_eager = (
        likely.is_training and likely.attention == "eager" and facts.kind in ("decoder", "encoder", "vit", "encdec")
    )
    return {
        **({"keeps_scores": Choice(False, (False, True))} if is_eager else {}),
        "repeats_keys": undecided if is_grouped else settled,
        "keeps_quantized_inputs": undecided if is_four_bit else settled,
        "keeps_fp8": Choice(False, (False, True))
        if likely.is_training and not likely.is_frozen and likely.precision == "fp8"
        else settled,
        "stores_fp8": undecided if likely.is_training and likely.is_frozen and likely.precision == "fp8" else settled,
    }


def _gradients_kept(run: RunConfig, facts: ModelFacts, method: str) -> Choice:
    """Whether gradients of the step before are alive during forward. `zero_grad` between forward and backward keeps
    them (mmcv's OptimizerHook, detectron2's SimpleTrainer), and before torch 2.0 it zeroed them wherever it was
    called; after the step it frees them (transformers' Trainer). Accumulation keeps them anyway."""
    if run.grad_accum.is_known and run.grad_accum.value != 1:
        return fixed(False)
    if facts.image_net is not None and facts.image_net.task != "classify":
        return Choice(True, (True, False))
    return Choice(False, (False, True), is_even=method == "full")


def _prompt(run: RunConfig, is_training: bool) -> Choice:
    """How much of the context is read at once: the prompt, where a run says its length beside the context's."""
    prompt, context = run.seq_len.value, run.max_context.value
    if isinstance(prompt, int) and isinstance(context, int) and prompt < context:
        return fixed(prompt / context)
    return Choice(0.0, (0.0, 1.0)) if run.max_context.is_known or not is_training else fixed(1.0)


def _holding(run: RunConfig) -> Choice:
    """Trainers that take the loss out of the model's result drop the logits (transformers, trl), or delete them
    (torchtune); loops of one's own mostly keep them in a variable."""
    return Choice(False, (False, True), is_even=run.objective.value not in READS_LOGPS)


def _shifting(run: RunConfig) -> Choice:
    """A log-probability is gathered from a view of the logits; a cross-entropy wants rows that follow each other."""
    return fixed(False) if run.objective.value in READS_LOGPS else Choice(False, (False, True), is_even=True)


def _widening(run: RunConfig, facts: ModelFacts) -> Choice:
    """transformers' decoders cast 16-bit logits to fp32 (ForCausalLMLoss); its models of two stacks do not, nor does
    trl since its losses take log-probabilities sequence by sequence."""
    if not facts.has_head:
        return fixed(True)
    is_narrow = facts.kind == "encdec" or run.objective.value in READS_LOGPS
    return Choice(False, (False, True)) if is_narrow else Choice(True, (True, False))


def _stepping(facts: ModelFacts) -> Choice:
    """torch.optim works on lists of all parameters (foreach) where nobody asks for its fused kernels. The frameworks
    that train large language models do ask (torchtune, torchtitan, litgpt, transformers since 2025), and those of
    diffusion networks mostly have an optimizer of 8 bits or a fused one; scripts for the rest leave torch's default."""
    if facts.kind == "dit":
        return Choice(False, (False, True))
    is_decoder = facts.kind == "decoder"
    return Choice(True, (True, False), (False,), is_open=is_decoder, is_even=is_decoder)


def _rank(run: RunConfig, facts: ModelFacts, is_adapter: bool) -> Choice:
    """Of adapters; of GaLore's projections, 128 in transformers, 16 in LLaMA-Factory, a quarter of the hidden width in
    its paper."""
    if is_adapter:
        return choose(run.lora_rank, undecided(16, 8, 64), undecided(16, 8, 64))
    if run.optimizer.value == "galore":
        rank = undecided(128, 16, max(facts.hidden // 4, 1), cheapest=(8,))
        return choose(run.lora_rank, rank, rank)
    return fixed(8)


def _steps(run: RunConfig, facts: ModelFacts, is_training: bool) -> Choices:
    """How the optimizer works through the parameters."""
    impl = run.optimizer_impl.value
    if not is_training or not isinstance(impl, Unknown):
        return {"has_foreach_step": fixed(is_training and impl == "foreach"), "steps_alone": fixed(impl == "loop")}
    return {"has_foreach_step": _stepping(facts), "steps_alone": fixed(False)}


def _beside(run: RunConfig, is_training: bool, method: str, readings: tuple[ModelFacts, ...]) -> Choices:
    """What a training holds beside its model: averages, references, other frozen models."""
    said = run.objective.value
    objective = said if is_training and not isinstance(said, Unknown) else "sft"
    reference = fixed(objective in WITH_REFERENCE and method == "full")
    if objective == "grpo" and method == "full":  # trl's beta is 0 by default, other frameworks keep one
        reference = Choice(False, (False, True), is_even=True)
    companions = run.companion_params.value
    layers = max(facts.layers for facts in readings)
    frozen = undecided(min(2, layers), 0, cheapest=(0,)) if readings[0].kind == "decoder" else fixed(0)
    return {
        "objective": fixed(objective),
        "has_reference": reference,
        "has_ema": choose(run.ema, fixed(False), Choice(False, (False, True))) if is_training else fixed(False),
        "has_bucket_views": choose(run.bucket_view, fixed(False), Choice(False, (False, True))),
        "is_dora": choose(run.dora, fixed(False), Choice(False, (False, True)))
        if method in ("lora", "qlora")
        else fixed(False),
        "trains_tower": _tower(readings[0], method) if is_training else fixed(False),
        "trained_layers": choose(run.trained_layers, frozen, frozen) if method == "freeze" else fixed(0),
        **({} if isinstance(companions, Unknown) else {"companions": fixed(companions)}),
    }


def _tower(facts: ModelFacts, method: str) -> Choice:
    """Of a model that reads text and images together both are trained; recipes for image chat freeze the encoder as
    often as not (LLaVA, LLaMA-Factory's freeze_vision_tower), and adapters on every linear layer may be in it."""
    if facts.tower is None:
        return fixed(False)
    if facts.kind == "encoder":
        return fixed(method == "full")
    return Choice(method == "full", (False, True), (False,), is_even=method == "full")


def _loading(run: RunConfig, likely: Setup, *, has_whole_gradients: bool) -> Choice:
    """FSDP shards what is on the device: a model moved there first is whole for a moment. DeepSpeed partitions
    parameters as they are made (zero.Init); models beyond any device are loaded in shards. Gradients as large as the
    model come later and are the peak anyway."""
    if not isinstance(run.sharded_load.value, Unknown):
        return fixed(not run.sharded_load.value)
    is_usual = likely.is_training and likely.sharding == "fsdp" and likely.shards > 1 and likely.offload == "none"
    is_usual = is_usual and not has_whole_gradients
    return Choice(False, (False, True), (), True, is_even=True) if is_usual else fixed(False)


def _accumulation(run: RunConfig, likely: Setup) -> Choice:
    """FSDP's ``no_sync`` keeps whole gradients until the last micro-batch of a step; frameworks use it or reduce every
    micro-batch (Accelerate's ``sync_each_batch``). Adapters are then either in units of their own (peft's and
    llama-recipes' wrapping policies) or in those of the frozen layers around them, which get gradients too."""
    if not likely.is_training or likely.sharding != "fsdp" or likely.shards == 1:
        return fixed(False)
    steps = run.grad_accum.value
    accumulates = run.grad_accum != UNSET if isinstance(steps, Unknown) else steps > 1
    if likely.method == "full":
        return Choice(False, (False, True), (), is_even=accumulates)
    is_mixed = likely.method in ("lora", "adapter-v2") and likely.quantization is None
    return Choice(False, (False, True), (), True, is_even=True) if is_mixed else fixed(False)


def _task(run: RunConfig) -> str:
    if not isinstance(run.task.value, Unknown):
        return run.task.value
    return "generate" if run.max_context.is_known else "train"


def _method(run: RunConfig, is_training: bool) -> str:
    """What is trained; where nobody says it, what the words that describe one method say."""
    if not is_training:
        return "full"
    if not isinstance(run.method.value, Unknown):
        return run.method.value
    if run.quantization.is_known:
        return "qlora"
    has_rank = run.lora_rank.is_known and run.optimizer.value != "galore"  # whose projections have that rank
    if has_rank or run.lora_targets.is_known or run.dora.value is True:
        return "lora"
    return "freeze" if run.trained_layers.is_known else "full"


def _possible_methods(run: RunConfig, method: str, is_training: bool) -> Choice:
    """Where a word about the method or the quantisation is there and cannot be read, adapters are possible."""
    is_unclear = any(not word.is_known and word != UNSET for word in (run.method, run.quantization))
    if is_training and is_unclear and not run.method.is_known and method == "full":
        return Choice(method, (method,), ("lora", "qlora", "freeze"), True)
    return fixed(method)


def _world(run: RunConfig) -> int:
    gpus = 1 if isinstance(run.num_gpus.value, Unknown) else run.num_gpus.value
    nodes = 1 if isinstance(run.nodes.value, Unknown) else run.nodes.value
    return gpus * nodes


def _numbers(run: RunConfig, is_training: bool, method: str, facts: ModelFacts) -> Choices:
    is_adapter, is_tied = method in ADAPTERS, facts.is_tied and facts.kind == "decoder"
    if not is_training or is_adapter:
        precision = undecided("pure-bf16", cheapest=("fp8",) if not is_training else ())
    else:
        precision = undecided("amp-bf16", "pure-bf16", "fp32")
        if (
            facts.kind == "dit"
        ):  # whose scripts hold the trained network in fp32 (diffusers) or in 16 bits (finetrainers)
            precision = replace(precision, probable=("amp-bf16", "pure-bf16"), is_even=True)
    optimizer = undecided("adamw", cheapest=("sgd",)) if is_training else fixed("sgd")
    kv = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}
    kv_dtype = run.kv_cache_dtype.value
    kv_bytes = 2.0 if isinstance(kv_dtype, Unknown) else kv[kv_dtype]
    return {
        "precision": choose(run.precision, precision, precision),
        "optimizer": choose(run.optimizer, optimizer, replace(optimizer, cheapest=("sgd", "lomo"))),
        "lora_rank": _rank(run, facts, is_adapter),
        "lora_targets": _targets(run, facts, method) if is_adapter else fixed("attention"),
        "kv_bytes": fixed(kv_bytes),
        **_steps(run, facts, is_training),
        "adapter_copy": Choice(3, (3, 5, 0)) if method in ("lora", "qlora") else fixed(0),
        "widens_adapters": Choice(True, (True, False), (False,)) if method in ("lora", "qlora") else fixed(False),
        "unties": _untying(run, facts, is_training) if is_tied else fixed(False),
        "widens_logits": _widening(run, facts) if is_training else fixed(True),
        "holds_logits": _holding(run) if is_training and facts.has_head else fixed(True),
        "shifts_logits": _shifting(run) if is_training and facts.has_head else fixed(False),
        "prompt_share": _prompt(run, is_training),
    }


def _untying(run: RunConfig, facts: ModelFacts, is_training: bool) -> Choice:
    """Whether a head that is the embedding is loaded as a matrix of its own. Checkpoints in fp8 list it beside the
    embedding, in 16 bits, and whoever loads them may keep both."""
    if is_training:
        return Choice(False, (False, True))
    is_fp8 = "fp8" in (run.precision.value, run.quantization.value, facts.stored_as)
    return Choice(False, (False, True), is_even=True) if is_fp8 else fixed(False)


def _quantization(run: RunConfig, facts: ModelFacts, is_training: bool, method: str) -> Choice:
    """What nobody wrote is what the weights are stored in; quantised weights cannot be trained, so a full training of
    them, and a GPU without their format, works on a 16-bit copy."""
    if method == "qlora" and not facts.stored_as:
        absent = fixed("nf4")
    elif facts.stored_as and (not is_training or method != "full"):
        absent = undecided(facts.stored_as, None)
    else:
        absent = fixed(None)
    unknown = undecided(absent.typical, *absent.probable, cheapest=("nf4",))
    chosen = choose(run.quantization, absent, unknown)
    category = "" if isinstance(run.category.value, Unknown) else run.category.value
    has_experts = facts.experts > 0 or (facts.is_guessed and category.startswith("moe"))
    if is_training and has_experts and chosen.typical in ("nf4", "int8"):
        # bitsandbytes quantises nn.Linear; transformers 5 holds all experts of a layer in one parameter
        return Choice(chosen.typical, (chosen.typical, None), chosen.cheapest, chosen.is_open)
    if chosen.typical == "nf4" and not chosen.is_open:  # bitsandbytes quantises the scales only where it is asked to
        return Choice("nf4", ("nf4", "nf4-plain"), is_even=True)
    return chosen


def _targets(run: RunConfig, facts: ModelFacts, method: str) -> Choice:
    """Queries and values for LoRA (its paper, section 4.2, and the default of peft); every linear layer for QLoRA (its
    paper, section 4). Of a diffusion network all four projections of its attention (diffusers' scripts), and names are
    those of its layers."""
    if method == "adapter-v2":  # a scale and a bias behind every linear layer (LLaMA-Adapter v2, section 3.2)
        return fixed("all-linear")
    targets = run.lora_targets.value
    if isinstance(targets, Unknown):
        if method == "other":  # prompts beside the layers, or a scale behind each: nothing says which
            return replace(undecided("attention", "all-linear"), is_even=True)
        return undecided("all-linear", "attention") if method == "qlora" else undecided("attention", "all-linear")
    named = ",".join(targets)
    if facts.pixel_net is not None and facts.pixel_net.adapted(named):
        return fixed(named)
    is_wide = any(_MLP_MODULE.search(name) for name in targets)
    return fixed("all-linear" if is_wide else "attention")


def _switches(run: RunConfig, is_training: bool, method: str) -> Choices:
    checkpointing = Choice("none", ("none", "full"), ("full", "selective"), True) if is_training else fixed("none")
    attention = undecided("sdpa", cheapest=("flash",))
    loss_impl = Choice("full", ("full",), ("fused",))
    return {
        "checkpointing": choose(run.grad_checkpointing, fixed("none"), checkpointing),
        "attention": choose(run.attention, attention, attention),
        "is_compiled": choose(run.compile, fixed(False), Choice(False, (False,), (True,), False)),
        "steps_in_backward": choose(run.optimizer_in_backward, fixed(False), Choice(False, (False,), (True,))),
        "loss_impl": choose(run.loss_impl, loss_impl, loss_impl),
    }


def typical(found: Choices, architecture: str) -> Setup:
    """The likeliest reading."""
    return Setup(architecture=architecture, **{name: choice.typical for name, choice in found.items()})
