"""One fully decided run: what every term is computed from. Made by `estimator.memory.candidates`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.models.facts import ModelFacts

_QUANTIZED_BYTES = {
    "nf4": 0.5 + 0.5 / 32,
    "nf4-plain": 0.5 + 4 / 64,
    "int4": 0.5 + 4 / 128,
    "int8": 1.0 + 4 / 4096,
    "mxfp4": 0.5 + 1 / 32,
    "fp8": 1.0,
}
"""Bytes per quantised parameter with its scales: nf4 with double-quantised scales of 64-element blocks (QLoRA paper,
section 3: 0.127 bit) or one fp32 scale per block, int4 with 16-bit scale and zero point per 128, int8 per row, mxfp4
one byte per 32 (OCP MX)."""


PAIRED = ("dpo", "orpo", "reward")
"""Objectives whose loss compares two answers (trl: one forward pass over both)."""
WITH_REFERENCE = ("dpo", "kto", "ppo")
"""Objectives that compare with a frozen copy; adapters are switched off instead (trl, peft). GRPO's is off in trl."""
READS_LOGPS = ("dpo", "orpo", "kto", "ppo", "grpo")
"""Objectives whose loss reads the log-probability of each token that was said, one sequence at a time (trl
`selective_log_softmax`): logits are not cast as a whole."""
ONLINE = ("ppo", "grpo")
"""Objectives that learn from what the model generates between the steps."""

ADAPTERS = ("lora", "qlora", "adapter-v2", "other")
"""Methods that train something small beside frozen weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A run with every word decided. Degrees are at least 1; `shards` divides what `sharding` says it divides."""

    facts: ModelFacts
    task: str
    micro_batch: int
    seq_len: int
    precision: str
    optimizer: str
    method: str
    lora_rank: int
    lora_targets: str  # "attention", "all-linear" or, of a diffusion network, names of modules with commas between
    quantization: str | None
    sharding: str
    shards: int
    replicas: int
    tp: int
    pp: int
    cp: int
    sp: int
    ep: int
    grad_accum: int
    offload: str
    checkpointing: str
    attention: str
    is_compiled: bool
    steps_in_backward: bool
    loss_impl: str
    kv_bytes: float
    has_foreach_step: bool
    steps_alone: bool  # the optimizer updates one parameter after the other
    has_bucket_views: bool  # DDP's gradients are views of its buckets
    has_ema: bool
    is_dora: bool
    trains_tower: bool  # the image encoder in front of a decoder gets gradients
    trained_layers: int  # the last ones, where the method is to freeze the rest
    objective: str
    has_reference: bool  # a frozen copy of the model that is trained
    holds_logits: bool  # a variable of the training loop holds them while backward runs
    shifts_logits: bool  # transformers copied logits to shift them, before its losses shifted the labels instead
    adapter_copy: int  # bytes per element of a LoRA target's input: a dropout's result and mask, 0 where it is shared
    keeps_scores: bool  # torch before 1.11 kept the input of log_softmax beside its result (pytorch#65242)
    autocasts: bool  # adapters of a 16-bit diffusion network are trained under autocast (accelerate's mixed_precision)
    widens_adapters: bool  # peft makes LoRA's matrices fp32 beside 16-bit weights (autocast_adapter_dtype)
    unties: bool  # frameworks that load a tied embedding and its head as two matrices (litgpt's finetuning)
    expands_latent: bool  # the cache of latent attention holds the keys and values made from it
    widens_logits: bool  # transformers' losses cast 16-bit logits to fp32, a plain cross_entropy does not
    is_activation_fused: bool  # tanh GELU: one kernel in torch, seven operations in transformers' "gelu_new"
    repeats_keys: bool  # keys and values are written out once per query head (transformers' repeat_kv)
    keeps_quantized_inputs: bool  # bitsandbytes kept the input of a 4-bit matmul before 0.43.2
    copies_layouts: bool  # convolutions of 16-bit maps copy them channels last
    stores_fp8: bool  # frozen weights, or they are 16-bit ones that are multiplied in fp8
    keeps_fp8: bool  # matmuls keep their inputs in fp8 (TransformerEngine), or in 16 bits (torchao's Float8Linear)
    keeps_gradients: bool  # of the step before, through the forward pass
    loads_whole: bool  # the model is put on the device before it is sharded
    whole_gradients: bool  # FSDP accumulates them unreduced, of all that is in a unit with something trained
    prompt_share: float  # of the context: nobody says how much is prompt and how much is generated
    architecture: str
    image: tuple[int, int] = (0, 0)  # height and width in pixels, of a network that reads images
    classes: int = 0  # that its loss tells apart
    target_len: int = 0  # tokens of one sample that a decoder reads beside its encoder's `seq_len`
    companions: int = 0  # parameters of frozen 16-bit models beside it: text encoders, an autoencoder

    @property
    def is_training(self) -> bool:
        """Whether gradients exist."""
        return self.task == "train"

    @property
    def is_amp(self) -> bool:
        """Whether weights are fp32 and an autocast (or FSDP mixed precision) computes in 16 bits."""
        is_fp8 = self.precision == "fp8" and self.is_training and not self.is_frozen
        return self.precision.startswith("amp") or is_fp8

    @property
    def weight_bytes(self) -> float:
        """Bytes of one unquantised parameter."""
        return 4.0 if self.is_amp or self.precision == "fp32" else 2.0

    @property
    def trained_bytes(self) -> float:
        """Bytes of one trained parameter."""
        return 4.0 if self.widens_adapters and self.method in ("lora", "qlora") else self.weight_bytes

    @property
    def compute_bytes(self) -> int:
        """Bytes of one element of a matmul's input or output."""
        return 4 if self.precision == "fp32" else 2

    @property
    def input_bytes(self) -> int:
        """Bytes of one element of what a matmul keeps of its input, where nothing else keeps it."""
        return 1 if self.keeps_fp8 else self.compute_bytes

    @property
    def residual_bytes(self) -> int:
        """Bytes of one element of the residual stream: autocast keeps sums and norms in fp32."""
        return 4 if self.precision == "fp32" or (self.is_amp and not self.is_gathered) else 2

    @property
    def is_gathered(self) -> bool:
        """Whether parameters are sharded and gathered unit by unit."""
        return self.sharding in ("zero3", "fsdp") and self.shards > 1

    @property
    def quantized_bytes(self) -> float | None:
        """Bytes of one quantised block parameter; None where nothing is quantised."""
        if self.quantization is not None:
            return _QUANTIZED_BYTES[self.quantization]
        is_stored = self.precision == "fp8" and (not self.is_training or (self.is_frozen and self.stores_fp8))
        return _QUANTIZED_BYTES["fp8"] if is_stored else None

    @property
    def has_master(self) -> bool:
        """Whether the optimizer keeps an fp32 copy of 16-bit weights (DeepSpeed, Megatron)."""
        return self.precision.endswith("-master")

    @property
    def samples(self) -> int:
        """Sequences of one forward pass: preference losses read two answers to each prompt."""
        return self.micro_batch * (2 if self.objective in PAIRED else 1)

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one device."""
        return self.samples * max(self.seq_len // self.cp, 1)

    @property
    def target(self) -> Setup:
        """The run as the stack that makes the logits sees it: of an encoder and a decoder, the second."""
        return replace(self, seq_len=self.target_len) if self.target_len else self

    @property
    def stage_layers(self) -> int:
        """Layers of the largest pipeline stage."""
        return -(-self.facts.layers // self.pp)

    @property
    def block_params(self) -> int:
        """Parameters of the layers on one device, before sharding."""
        away = self.facts.expert_params * (self.ep - 1) // self.ep  # on the other ranks of the expert parallelism
        return (self.facts.block_params - away) // (self.tp * self.pp)

    @property
    def embedding_params(self) -> int:
        """Embedding and head on the fullest device (with a pipeline, the first and last stage hold one each)."""
        whole, copies = self.facts.embedding_params, 2 if self.unties else 1
        return (whole * copies if self.pp == 1 or self.facts.is_tied else whole // 2) // self.tp

    @property
    def head_params(self) -> int:
        """The matrix that makes logits; of a classifier, nothing worth counting."""
        return self.facts.vocab * self.facts.hidden // self.tp if self.facts.has_head else 0

    @property
    def device_params(self) -> int:
        """Parameters on one device, before sharding."""
        return self.block_params + self.embedding_params

    @property
    def lora_params(self) -> int:
        """Adapter parameters: rank x (inputs + outputs) per target matrix."""
        facts = self.facts
        if facts.pixel_net is not None:
            layers = facts.pixel_net.adapted(self.lora_targets)
            total = sum((self.lora_rank * (each.inputs + each.outputs) + each.outputs * self.is_dora) * each.count
                        for each in layers)  # fmt: skip
            return total * self.stage_layers // (self.tp * facts.layers)
        if facts.parts:
            return self.lora_rank * self._part_adapters() * self.stage_layers // (self.tp * facts.layers)
        attention = (facts.hidden + facts.q_width) + (facts.hidden + facts.kv_width)
        if self.lora_targets == "all-linear":
            attention = 2 * (facts.hidden + facts.q_width) + 2 * (facts.hidden + facts.kv_width)
            ffn = facts.moe_ffn * facts.experts if facts.experts else facts.ffn
            attention += (3 if facts.is_gated else 2) * (facts.hidden + ffn)
        return (self.lora_rank * attention + self.dora_magnitudes) * self.stage_layers // self.tp

    def _part_adapters(self) -> int:
        """Inputs and outputs of all adapted matrices of a hybrid."""
        facts, is_wide = self.facts, self.lora_targets == "all-linear"
        h, q, kv = facts.hidden, facts.q_width, facts.kv_width
        attention = 2 * (h + q) + 2 * (h + kv) if is_wide else (h + q) + (h + kv)
        width = facts.moe_ffn * facts.experts if facts.experts else facts.ffn
        each = dict.fromkeys(("mlp", "moe"), (2 + facts.is_gated) * (h + width) * is_wide)
        inner = facts.recurrence.inner if facts.recurrence else 0
        recurrence = ((h + 2 * inner) + (inner + h)) * is_wide
        each |= {"attention": attention, "recurrence": recurrence, "both": attention + recurrence}
        return sum(count * each[name] for name, count in facts.parts)

    @property
    def dora_magnitudes(self) -> int:
        """Widths of what the adapted matrices of one layer give: DoRA learns a magnitude for each output."""
        return self.adapted_outputs if self.is_dora else 0

    @property
    def adapted_outputs(self) -> int:
        """Outputs of the matrices of one layer that have adapters."""
        facts = self.facts
        if self.lora_targets != "all-linear":
            return facts.q_width + facts.kv_width
        ffn = facts.moe_ffn * facts.experts if facts.experts else facts.ffn
        return 2 * facts.hidden + facts.q_width + 2 * facts.kv_width + (2 if facts.is_gated else 1) * ffn

    @property
    def head_only(self) -> int:
        """What is trained on top of frozen layers: a classifier's weights and biases (of two classes)."""
        return 2 * self.facts.hidden

    @property
    def is_frozen(self) -> bool:
        """Whether the base weights get no gradient."""
        return self.method != "full"

    @property
    def state_params(self) -> int:
        """Trained parameters whose optimizer state is on this device or, sharded, on its group: ZeRO spreads the state
        of experts over the ranks that hold the same ones."""
        if self.ep == 1 or self.sharding not in ("zero1", "zero2") or self.method != "full":
            return self.trainable_params
        return max(replace(self, ep=1).trainable_params, 0)

    @property
    def trainable_params(self) -> int:
        """Parameters with a gradient on one device, before sharding."""
        if not self.is_training:
            return 0
        if self.method == "full":
            return max(self.device_params - self.facts.frozen, 0)
        if self.method == "freeze":
            return min(self.trained_layers, self.stage_layers) * self.facts.layer_params // self.tp + self.head_only
        return self.lora_params if self.method in ("lora", "qlora") else self.facts.params // 1000
