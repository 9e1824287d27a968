"""The words of a run config: what each may hold, its other spellings, and the option that sets it.

One row per word. `RunConfig.from_document`, the options of ``preflight estimate``, ``/preflight estimate`` and
``docs/run-config.schema.json`` are all read from this table, so that a spelling is known everywhere or nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from estimator.models.local import parse as parse_network
from estimator.units import parse_memory, parse_params

Parser = Callable[[object], Any]
JsonSchema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One field. `schema` is its JSON schema; `options` are command-line spellings; `aliases` other field names."""

    name: str
    parse: Parser
    schema: JsonSchema
    help: str
    options: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    is_flag: bool = False
    is_list: bool = False
    is_open: bool = False  # an unheard-of value is an answer (unknown), not an error


def _whole(low: int, high: int) -> Parser:
    def parse(value: object) -> int:
        message = f"must be a whole number from {low} to {high}"
        if isinstance(value, str) and re.fullmatch(r"\s*[0-9_,]{1,20}\s*", value):
            value = int(re.sub(r"[_,\s]", "", value) or "-1")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(message)
        return value

    return parse


def _boolean(value: object) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, (str, int)) and str(value).lower() in words:
        return words[str(value).lower()]
    raise ValueError("must be true or false")


def _name(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200 or not value.isprintable():
        raise ValueError("must be a name of at most 200 printable characters")
    return value.strip()


def _names(value: object) -> tuple[str, ...]:
    items = re.split(r"[,;]", value) if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not items:
        raise ValueError("must be a name or a list of names")
    parts = [part for item in items for part in (re.split(r"[,;]", item) if isinstance(item, str) else [item])]
    return tuple(_name(part) for part in parts)


def _image(value: object) -> tuple[int, int]:
    side = _whole(1, 65536)
    if isinstance(value, str) and re.fullmatch(r"\d+\s*[x×,]\s*\d+", value):
        value = re.split(r"\s*[x×,]\s*", value)
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise ValueError("must be a side or HEIGHTxWIDTH")
        return side(value[0]), side(value[1])
    return side(value), side(value)


def _spelling(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text.strip().lower())


def _one_of(words: tuple[str, ...], spellings: Mapping[str, str]) -> Parser:
    def parse(value: object) -> str:
        if isinstance(value, bool):
            value = str(value)
        word = _spelling(value) if isinstance(value, str) else ""
        word = spellings.get(word, word)
        if word not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return word

    return parse


ARCH_WORDS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "experts", "experts_per_token")
_ARCH_EXTRA = ("moe_ffn", "tied_embeddings", "tokens", "max_position")


def _arch(value: object) -> dict[str, int | bool]:
    if not isinstance(value, Mapping):
        raise ValueError("must be an object of layer counts and widths")
    found: dict[str, int | bool] = {}
    for key, item in value.items():
        if key not in ARCH_WORDS + _ARCH_EXTRA:
            raise ValueError(f"has no entry {str(key)[:40]!r}; it knows {', '.join(ARCH_WORDS + _ARCH_EXTRA)}")
        if item is None:
            continue
        try:
            found[key] = _boolean(item) if key == "tied_embeddings" else _whole(1, 10**7)(item)
        except ValueError as error:
            raise ValueError(f"entry {key}: {error}") from None
    return found


TASKS = ("train", "infer", "generate")
PRECISIONS = ("fp32", "amp-bf16", "amp-fp16", "pure-bf16", "pure-fp16", "bf16-master", "fp16-master", "fp8")
METHODS = ("full", "lora", "qlora", "freeze", "adapter-v2", "other")
QUANTIZATIONS = ("nf4", "int4", "int8", "mxfp4", "fp8")
SHARDINGS = ("none", "ddp", "zero1", "zero2", "zero3", "fsdp")
OFFLOADS = ("none", "optimizer", "params", "both")
CHECKPOINTINGS = ("none", "selective", "core-attention", "full")
ATTENTIONS = ("eager", "sdpa", "flash")
LOSSES = ("full", "chunked", "fused")
OPTIMIZER_IMPLS = ("foreach", "fused", "loop")
OBJECTIVES = ("sft", "dpo", "orpo", "kto", "reward", "ppo", "grpo")
OPTIMIZERS = (
    "adamw", "adamw-paged", "adamw-8bit", "adamw-8bit-paged", "adamw-4bit", "adamw-fp8", "adagrad", "rmsprop", "sgd",
    "sgd-momentum",
    "adafactor", "lion", "lion-8bit", "muon", "galore", "lomo",
)  # fmt: skip

_PRECISION_SPELLINGS = {
    "float32": "fp32", "32": "fp32", "no": "fp32", "tf32": "fp32", "32-true": "fp32",
    "bf16": "pure-bf16", "bfloat16": "pure-bf16", "bf16-true": "pure-bf16",
    "fp16": "pure-fp16", "float16": "pure-fp16", "half": "pure-fp16", "16-true": "pure-fp16",
    "amp": "amp-bf16", "mixed": "amp-bf16", "bf16-mixed": "amp-bf16", "16-mixed": "amp-fp16",
    "mixed-bf16": "amp-bf16", "bfloat16-mixed": "amp-bf16", "bf16-amp": "amp-bf16", "fp16-mixed": "amp-fp16",
    "mixed-fp16": "amp-fp16", "fp16-amp": "amp-fp16", "float8": "fp8", "fp8-mixed": "fp8", "mxfp8": "fp8",
    "bf16-sr": "pure-bf16", "bf16-stochastic-rounding": "pure-bf16",
}  # fmt: skip
_OPTIMIZER_SPELLINGS = {
    "adam": "adamw", "adamw-torch": "adamw", "adamw-torch-fused": "adamw", "adamw-fused": "adamw", "adamw-hf": "adamw",
    "fusedadam": "adamw", "decoupled-adamw": "adamw", "nadam": "adamw", "radam": "adamw", "adam-w": "adamw",
    "adam-8bit": "adamw-8bit", "adam8bit": "adamw-8bit", "adamw8bit": "adamw-8bit", "adamw-bnb-8bit": "adamw-8bit",
    "adamw-torch-8bit": "adamw-8bit", "paged-adamw-8bit": "adamw-8bit-paged", "pagedadamw8bit": "adamw-8bit-paged",
    "adamw-torch-4bit": "adamw-4bit", "adamw4bit": "adamw-4bit", "adamwfp8": "adamw-fp8", "momentum": "sgd-momentum",
    "sgd+momentum": "sgd-momentum", "sgdm": "sgd-momentum", "lion8bit": "lion-8bit", "lion-32bit": "lion",
    "muon+adam": "muon", "muon+adamw": "muon", "paged-adamw-32bit": "adamw-paged", "paged-adamw": "adamw-paged",
    "pagedadamw": "adamw-paged", "pagedadamw32bit": "adamw-paged", "paged-lion-8bit": "lion-8bit",
    "adamw-apex-fused": "adamw", "stable-adamw": "adamw", "schedule-free-adamw": "adamw",
    "galore-adamw": "galore", "galore-adamw-8bit": "galore", "adalomo": "lomo", "cpuadam": "adamw",
    "schedule-free-radam": "adamw", "deepspeedcpuadam": "adamw", "adam-torch": "adamw", "fused-adam": "adamw",
}  # fmt: skip
_CHECKPOINT_SPELLINGS = {"true": "full", "false": "none", "offload": "full", "yes": "full", "no": "none", "on": "full",
                         "off": "none", "unsloth": "full", "block": "full", "selective-op": "selective",
                         "sac": "selective", "per-op": "selective", "core-attn": "core-attention",
                         "selective-attention": "core-attention"}  # fmt: skip
_OFFLOAD_SPELLINGS = {"optimizer-paged": "optimizer", "optimizer+gradients": "optimizer", "false": "none",
                      "optimizer-(zero-offload)": "optimizer", "cpu": "optimizer", "true": "both", "all": "both",
                      "params+optimizer": "both", "optimizer+params": "both"}  # fmt: skip
_SHARDING_SPELLINGS = {"zero-1": "zero1", "zero-2": "zero2", "zero-3": "zero3", "zero0": "ddp", "full-shard": "fsdp",
                       "fsdp2": "fsdp", "fsdp1": "fsdp", "shard-grad-op": "zero2", "no-shard": "ddp", "dp": "ddp",
                       "deepspeed-zero1": "zero1", "deepspeed-zero2": "zero2", "deepspeed-zero3": "zero3",
                       "tp": "none", "pp": "none", "cp": "none", "sp": "none", "ep": "none", "hsdp": "fsdp",
                       "hybrid-shard": "fsdp", "zero-infinity": "zero3", "gemini": "zero3"}  # fmt: skip
_LOSS_SPELLINGS = {"standard": "full", "cut-cross-entropy": "fused", "liger-fused-ce": "fused", "liger": "fused",
                   "cce": "fused", "chunked-ce": "chunked", "chunked-cross-entropy": "chunked",
                   "linear-cross-entropy": "fused"}  # fmt: skip
_ATTENTION_SPELLINGS = {"flash-attention-2": "flash", "flash-attention-3": "flash", "fa2": "flash", "fa3": "flash",
                        "flex": "flash", "flex-attention": "flash", "xformers": "flash", "manual": "eager",
                        "scaled-dot-product": "sdpa", "math": "eager", "mem-efficient": "sdpa",
                        "memory-efficient": "sdpa", "kernels-community/flash-attn": "flash"}  # fmt: skip
_IMPL_SPELLINGS = {"for-loop": "loop", "forloop": "loop", "single-tensor": "loop", "multi-tensor": "foreach"}
_IMPLIED: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "optimizer": {
        **dict.fromkeys(("adamw-torch-fused", "adamw-fused", "fusedadam", "fused-adam", "adamw-apex-fused"),
                        ("optimizer_impl", "fused")),
        "adamw-torch": ("optimizer_impl", "foreach"),
    },
    "method": dict.fromkeys(("dora", "qdora"), ("dora", True)),
}  # fmt: skip
"""Spellings that say a second word as well."""
_OBJECTIVE_SPELLINGS = {"pt": "sft", "pretrain": "sft", "none": "sft", "ipo": "dpo", "simpo": "orpo", "cpo": "orpo",
                        "rm": "reward", "reward-modeling": "reward", "rloo": "grpo", "reinforce++": "grpo",
                        "dr-grpo": "grpo", "dapo": "grpo"}  # fmt: skip
_METHOD_SPELLINGS = {"none": "full", "full-ft": "full", "sft": "full", "dora": "lora", "qdora": "qlora",
                     "adapter": "other", "llama-adapter-v2": "adapter-v2", "frozen": "freeze",
                     "linear-probe": "freeze"}  # fmt: skip
_TASK_SPELLINGS = {"finetune": "train", "fine-tune": "train", "sft": "train", "inference": "infer", "eval": "infer",
                   "generation": "generate", "pretrain": "train"}  # fmt: skip


def _choice(words: tuple[str, ...], spellings: Mapping[str, str]) -> dict[str, Any]:
    return {"parse": _one_of(words, spellings), "schema": {"enum": [*words, None]}}


def _number(low: int, high: int) -> dict[str, Any]:
    return {"parse": _whole(low, high), "schema": {"type": ["integer", "null"], "minimum": low, "maximum": high}}


def _share(value: object) -> float:
    number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
    if not 0.0 <= number < 1.0:
        raise ValueError("must be a share of the card from 0 to below 1, such as 0.3")
    return number


def _billions(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a number of billions of parameters")
    return parse_params(value * 1e9)


def _perhaps_none(value: object) -> int:
    return 0 if value in (0, "0") and not isinstance(value, bool) else parse_params(value)


_STRING: JsonSchema = {"type": ["string", "null"], "maxLength": 200}
_STRINGS: JsonSchema = {"type": ["array", "string", "null"], "items": {"type": "string"}}
_BOOL: JsonSchema = {"type": ["boolean", "null"]}
_DEGREE = _number(1, 65536)

WORDS: tuple[Word, ...] = (
    Word(name="model", parse=_name, schema=_STRING, help="model id, such as meta-llama/Llama-2-7b-hf",
         options=("--model",), aliases=("model_id", "model_name", "model_name_or_path", "base_model")),
    Word(name="params", parse=parse_params, schema={"type": ["integer", "string", "null"], "minimum": 1},
         help="number of parameters, such as 7B", options=("--params",), aliases=("num_params",)),
    Word(name="params_b", parse=_billions, schema={"type": ["number", "null"]},
         help="number of parameters in billions"),
    Word(name="category", parse=_name, schema=_STRING, help="kind of model where the id does not say it"),
    Word(name="arch", parse=_arch, schema={"type": ["object", "null"]}, help="layer counts and widths"),
    Word(name="network", parse=parse_network, schema={"type": ["object", "null"]},
         help="a network that the repository defines, as `preflight launches` counts it"),
    Word(name="task", **_choice(TASKS, _TASK_SPELLINGS), help="what the run does", options=("--mode",),
         aliases=("mode",)),
    Word(name="micro_batch", **_number(1, 2**20), help="samples per device and forward pass",
         options=("--micro-batch", "--batch-size"),
         aliases=("batch_size", "micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu")),
    Word(name="grad_accum", **_number(1, 2**20), help="forward passes per optimizer step",
         options=("--grad-accum",), aliases=("gradient_accumulation_steps", "accumulate_grad_batches")),
    Word(name="seq_len", **_number(1, 2**27), help="tokens per sample", options=("--seq-len",),
         aliases=("sequence_length", "max_seq_length", "block_size", "sequence_len", "max_length", "cutoff_len")),
    Word(name="packing", parse=_boolean, schema=_BOOL, is_flag=True, options=("--packing",),
         aliases=("sample_packing",), help="short samples are packed until each row is full"),
    Word(name="max_context", **_number(1, 2**27), help="tokens the KV cache must hold when generating",
         options=("--max-context",), aliases=("max_model_len", "max_new_tokens_and_prompt")),
    Word(name="image_size", parse=_image, schema={"type": ["array", "integer", "string", "null"]},
         help="side of the input image, or HEIGHTxWIDTH", options=("--image-size",)),
    Word(name="frames", **_number(1, 2**16), help="frames of a video", options=("--frames",),
         aliases=("num_frames",)),
    Word(name="precision", **_choice(PRECISIONS, _PRECISION_SPELLINGS), help="what weights and activations are held in",
         options=("--precision", "--dtype"), aliases=("dtype", "mixed_precision", "torch_dtype")),
    Word(name="optimizer", is_open=True,
         **_choice(OPTIMIZERS, _OPTIMIZER_SPELLINGS), help="optimizer", options=("--optimizer",),
         aliases=("optim",)),
    Word(name="optimizer_impl", **_choice(OPTIMIZER_IMPLS, _IMPL_SPELLINGS), options=("--optimizer-impl",),
         help="whether the step works on lists of all parameters, in fused kernels or tensor by tensor"),
    Word(name="method", is_open=True,
         **_choice(METHODS, _METHOD_SPELLINGS), help="what is trained", options=("--method",)),
    Word(name="lora_rank", **_number(1, 65536), help="rank of the adapters", options=("--lora-rank",),
         aliases=("lora_r",)),
    Word(name="lora_targets", parse=_names, schema=_STRINGS, help="module names that get adapters, or all-linear",
         options=("--lora-targets",), aliases=("lora_target_modules", "target_modules")),
    Word(name="dora", parse=_boolean, schema=_BOOL, is_flag=True, options=("--dora",), aliases=("use_dora",),
         help="adapters learn a magnitude per output beside the direction (DoRA)"),
    Word(name="trained_layers", **_number(0, 4096), options=("--trained-layers",), aliases=("freeze_trainable_layers",),
         help="last layers that are trained where the rest is frozen; 0: the head alone"),
    Word(name="objective", **_choice(OBJECTIVES, _OBJECTIVE_SPELLINGS), options=("--objective",),
         help="what is learned from: two answers a sample (dpo, orpo, reward), beside a reference (dpo, kto, ppo)"),
    Word(name="companion_params", parse=_perhaps_none, schema={"type": ["integer", "string", "null"], "minimum": 0},
         options=("--companion-params",), help="parameters of frozen 16-bit models on the same GPU: teacher, reward"),
    Word(name="ema", parse=_boolean, schema=_BOOL, is_flag=True, options=("--ema",),
         help="an exponential moving average of the weights is kept on the GPU"),
    Word(name="engine_share", parse=_share, schema={"type": ["number", "string", "null"], "minimum": 0},
         options=("--engine-share",), aliases=("vllm_gpu_memory_utilization",),
         help="share of the card that an inference engine on the same GPU takes"),
    Word(name="quantization", **_choice(QUANTIZATIONS, {"fp4": "nf4", "int4-awq": "int4", "int4-gptq": "int4",
         "awq": "int4", "gptq": "int4", "4bit": "nf4", "8bit": "int8",
         "bnb-4bit": "nf4", "bnb-8bit": "int8", "gptq-int4": "int4", "gptq-int8": "int8", "int8-gptq": "int8",
         "int4-weight-only": "int4", "int8-weight-only": "int8"}), help="how frozen weights are stored",
         options=("--quantization",), aliases=("quantize",)),
    Word(name="sharding", is_open=True,
         **_choice(SHARDINGS, _SHARDING_SPELLINGS), help="how data-parallel ranks share state",
         options=("--sharding",)),
    Word(name="bucket_view", parse=_boolean, schema=_BOOL, is_flag=True, options=("--bucket-view",),
         aliases=("gradient_as_bucket_view",), help="DDP's gradients are views of its buckets"),
    Word(name="sharded_load", parse=_boolean, schema=_BOOL, is_flag=True, options=("--sharded-load",),
         help="the model is loaded in shards or in host memory, never whole on one GPU before FSDP shards it"),
    Word(name="splits_batch", parse=_boolean, schema=_BOOL,
         help="one process splits each batch over its GPUs (torch.nn.DataParallel): micro_batch is that of all"),
    Word(name="sharding_degree", **_DEGREE, help="ranks that share one copy of the state"),
    Word(name="tp_degree", **_DEGREE, help="tensor-parallel ranks", options=("--tensor-parallel", "--tp"),
         aliases=("tensor_parallel_size",)),
    Word(name="pp_degree", **_DEGREE, help="pipeline stages", options=("--pipeline-parallel", "--pp"),
         aliases=("pipeline_parallel_size",)),
    Word(name="cp_degree", **_DEGREE, help="context-parallel ranks", options=("--context-parallel", "--cp"),
         aliases=("context_parallel_size",)),
    Word(name="sp_degree", **_DEGREE, help="sequence-parallel ranks", options=("--sequence-parallel",)),
    Word(name="ep_degree", **_DEGREE, help="expert-parallel ranks", options=("--expert-parallel", "--ep")),
    Word(name="num_gpus", **_number(1, 65536), help="GPUs per node", options=("--gpus",),
         aliases=("gpus_per_node", "nproc_per_node", "gpu_count")),
    Word(name="nodes", **_number(1, 65536), help="nodes", options=("--nodes",), aliases=("num_nodes", "nnodes")),
    Word(name="offload", is_open=True, **_choice(OFFLOADS, _OFFLOAD_SPELLINGS), help="what lives in host memory",
         options=("--offload",)),
    Word(name="grad_checkpointing", **_choice(CHECKPOINTINGS, _CHECKPOINT_SPELLINGS), help="activation recomputation",
         options=("--checkpointing",), aliases=("gradient_checkpointing", "activation_checkpointing"), is_flag=True),
    Word(name="attention", **_choice(ATTENTIONS, _ATTENTION_SPELLINGS), help="attention implementation",
         options=("--attention",), aliases=("attn_implementation",)),
    Word(name="compile", parse=_boolean, schema=_BOOL, help="torch.compile", options=("--compile",), is_flag=True,
         aliases=("torch_compile",)),
    Word(name="optimizer_in_backward", parse=_boolean, schema=_BOOL, help="the optimizer steps inside backward",
         options=("--optimizer-in-backward",), is_flag=True),
    Word(name="loss_impl", is_open=True, **_choice(LOSSES, _LOSS_SPELLINGS), help="whether all logits exist at once",
         options=("--loss-impl",)),
    Word(name="kv_cache_dtype", **_choice(("fp32", "fp16", "bf16", "fp8", "int8", "int4"), {"auto": "bf16"}),
         help="element type of the KV cache", options=("--kv-cache-dtype",)),
    Word(name="gpu", parse=_names, schema=_STRINGS, help="GPU or instance type; may be given several times",
         options=("--gpu", "--instance"), aliases=("gpus", "instance"), is_list=True),
    Word(name="gpu_memory", parse=parse_memory, schema={"type": ["integer", "number", "string", "null"]},
         help="memory of one GPU, such as 48GiB", options=("--gpu-memory",), aliases=("gpu_mem_gib", "gpu_mem")),
)  # fmt: skip
"""`gpu_memory` is in bytes inside, and in GiB (number) or with a unit (string) in a document."""

NOTES = frozenset(
    {
        "version", "id", "source", "src_key", "family", "group", "split", "quality", "extra", "unit_note",
        "unknown_fields", "arch_source", "suspect", "measured_gib", "published_value", "measured_kind", "oom",
        "ran_only", "note", "notes", "origins", "unknowns", "path", "format", "command", "estimate", "$schema",
    }
)  # fmt: skip
"""Fields of a document that describe it and say nothing about the run."""


@dataclass(frozen=True, slots=True)
class _Index:
    by_name: dict[str, Word] = field(default_factory=dict)
    by_option: dict[str, Word] = field(default_factory=dict)


def _index() -> _Index:
    index = _Index()
    for word in WORDS:
        for name in (word.name, *word.aliases):
            index.by_name[name] = word
        for option in word.options:
            index.by_option[option] = word
    return index


_INDEX = _index()


def word_for_field(name: str) -> Word | None:
    """The word of a document field, by its name or another spelling."""
    return _INDEX.by_name.get(name) or _INDEX.by_name.get(name.replace("-", "_"))


def implied(name: str, value: object) -> tuple[str, Any] | None:
    """Another word that a spelling of this one decides: ``adamw_torch_fused`` is AdamW, in a fused kernel."""
    return _IMPLIED.get(name, {}).get(_spelling(value)) if isinstance(value, str) else None


def options() -> list[str]:
    """Every command-line option that sets a word."""
    return list(_INDEX.by_option)
