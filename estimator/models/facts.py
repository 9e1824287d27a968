"""What is known about a model: its shape, and what its layers keep."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.models import images, pixels
from estimator.models.local import Pass


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What stands where other layers have attention: `kind` names its program in `estimator.memory.recurrent`."""

    kind: str
    inner: int = 0  # width of what is scanned; of values in a delta rule
    state: int = 0  # numbers per channel
    groups: int = 1  # that share B and C
    heads: int = 0
    rank: int = 0  # of Mamba's time step
    keys: int = 0  # width of keys in a delta rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Shape and size of one model. Counts are of the whole model; widths are of one layer."""

    id: str | None
    kind: str
    params: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    source: str
    params_active: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn: int = 0
    is_tied: bool = False
    is_gated: bool = True
    is_rms_norm: bool = True
    is_parallel: bool = False
    activation: str = "silu"
    has_dropout: bool = False
    norms: int = 2
    has_qk_norm: bool = False
    is_qkv_fused: bool = False  # one matmul for queries, keys and values
    caps_scores: bool = False  # a tanh bounds attention scores and logits (Gemma 2)
    keeps_fused: bool = False  # rotated queries and keys are new tensors, and the values a view that keeps all three
    max_position: int | None = None  # tokens of one sample
    has_learned_positions: bool = False  # a table of them, which nothing stretches
    patch: int = 0
    image: int = 0
    is_guessed: bool = False
    stored_as: str | None = None  # the quantisation its published weights have
    image_net: images.AnyNet | None = None  # a network that reads pictures or sound, counted map by map or traced
    cached_layers: int = 0  # that keep every token's keys and values; 0: all of them
    window_layers: int = 0  # that need those of the last `window` tokens alone
    window: int = 0
    latent: int = 0  # width of a token's cache entry in latent attention (DeepSeek)
    plain_dim: int = 0  # of one head's keys in latent attention, without the part that is rotated
    query_latent: int = 0  # width that queries are compressed to (DeepSeek)
    value_dim: int = 0  # of one head's values, where it differs from the keys'
    pixel_net: pixels.PixelNet | None = None  # a diffusion network, counted by latent positions
    local: Pass | None = None  # a network of the repository, and what one sample's forward pass keeps of it
    frozen: int = 0  # parameters that need no gradient
    decoder_layers: int = 0  # of the `layers`, where an encoder stands beside a decoder that attends to it
    source_tokens: int = 0  # that the encoder always reads (Whisper)
    biases_scores: bool = False  # a learned bias per head and pair of tokens (T5)
    drops_ffn: bool = False  # dropout between the activation and the second matmul
    has_wide_norm: bool = False  # RMSNorm multiplies by its weight in fp32 (Gemma, Qwen3-Next, Nemotron-H)
    has_wide_residual: bool = False  # what layers add to is fp32 whatever they compute in (Mamba's residual_in_fp32)
    has_layer_scale: bool = False  # a factor per channel behind each part (DINOv2)
    relative_span: int = 0  # positions that queries and keys are compared with beside each other (DeBERTa)
    tower: ModelFacts | None = None  # an encoder of images in front of a decoder, or beside a text encoder
    dense_layers: int = 0  # that have no experts, of a model whose others do
    shared_ffn: int = 0  # width of the experts that every token passes, beside those it is routed to
    is_headless: bool = False  # a reward model or classifier made of a decoder: its head gives one number
    parts: tuple[tuple[str, int], ...] = ()  # of a hybrid: attention, recurrence, both, mlp, moe, and how many of each
    recurrence: Recurrence | None = None

    def __hash__(self) -> int:
        """Over what tells models apart: readings are looked up by it many thousand times per suggestion."""
        return hash((self.id, self.params, self.layers, self.hidden, self.ffn, self.vocab, self.local))

    @property
    def has_head(self) -> bool:
        """Whether a matrix makes logits over the vocabulary."""
        return self.kind in ("decoder", "encdec") and not self.is_headless

    @property
    def has_attention(self) -> bool:
        """Whether some of its layers attend: not of a model that only scans."""
        return self.kind != "image" and (not self.parts or any(part in ("attention", "both") for part, _ in self.parts))

    @property
    def q_width(self) -> int:
        """Width of the queries of one token."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of the keys (and of the values) of one token."""
        return self.kv_heads * self.head_dim

    @property
    def value_width(self) -> int:
        """Width of the values of one token."""
        return self.kv_heads * (self.value_dim or self.head_dim)

    @property
    def embedding_params(self) -> int:
        """Token embedding, and the head where it is a matrix of its own."""
        copies = 1 if self.is_tied or not self.has_head else 2
        return min(self.vocab * self.hidden * copies, self.params)

    @property
    def block_params(self) -> int:
        """Everything but embedding and head: what quantisation, pipeline stages and FSDP units divide."""
        return max(self.params - self.embedding_params, 0)

    @property
    def expert_params(self) -> int:
        """Parameters of all routed experts."""
        matrices = 3 if self.is_gated else 2
        count = (self.layers - self.dense_layers) * self.experts
        return min(count * matrices * self.hidden * self.moe_ffn, self.block_params)

    @property
    def active_ffn(self) -> float:
        """Feed-forward width that one token passes, in an average layer."""
        if not self.experts or not self.moe_ffn:
            return self.ffn
        each = self.experts_per_token * self.moe_ffn + self.shared_ffn
        return each + (self.ffn - each) * self.dense_layers / self.layers

    @property
    def attention_params(self) -> int:
        """Weights of one layer's attention."""
        h, heads = self.hidden, self.heads
        if not self.latent:
            return 2 * h * (self.q_width + self.kv_width)
        rotated = self.head_dim - self.plain_dim
        queries = (h + self.q_width) * self.query_latent if self.query_latent else h * self.q_width
        values = heads * (self.value_dim or self.head_dim)
        return queries + h * self.latent + (self.latent - rotated) * (heads * self.plain_dim + values) + h * values

    @property
    def without_head(self) -> ModelFacts:
        """The same layers under a head of one number."""
        if not self.has_head:
            return self
        return replace(self, params=self.params - (0 if self.is_tied else self.vocab * self.hidden), is_headless=True)

    @property
    def layer_params(self) -> int:
        """Parameters of one layer."""
        return self.block_params // max(self.layers, 1)
