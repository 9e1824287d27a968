"""Rows of ``data/models.csv`` built from classes of transformers on the meta device, as ``listing.toml`` says.

python -m estimator.calibration.listing
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from analyzer.toml import parse_toml

_MODELS = Path(__file__).parents[1] / "data" / "models.csv"
_LISTING = Path(__file__).with_name("listing.toml")
_COLUMNS = {
    "layers": ("num_hidden_layers", "n_layers", "encoder_layers"),
    "hidden": ("hidden_size", "d_model"),
    "heads": ("num_attention_heads", "n_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "ffn_intermediate": ("intermediate_size", "encoder_ffn_dim"),
    "n_experts": ("num_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok",),
    "moe_ffn": ("moe_intermediate_size",),
    "vocab": ("vocab_size",),
    "max_position": ("max_position_embeddings",),
    "activation": ("hidden_act", "activation_function", "mlp_hidden_act"),
}
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "hidden_dropout")


def _first(config: Any, names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := getattr(config, name, None)) is not None), "")


def _row(entry: Mapping[str, Any], columns: list[str]) -> dict[str, Any]:
    config = getattr(transformers, entry["classes"][0])(**entry.get("sizes", {}))
    with torch.device("meta"):
        model = getattr(transformers, entry["classes"][1])(config)
    params = sum(each.numel() for each in {id(each): each for each in model.parameters()}.values())
    if params != entry.get("published", params):
        raise SystemExit(f"{entry['id']}: {params} parameters, published are {entry['published']}")
    text = getattr(config, "text_config", None) or config
    found = {name: _first(text, names) for name, names in _COLUMNS.items()}
    names = {type(module).__name__ for module in model.modules()}
    is_bare = entry.get("attention", "").startswith("layers:linear_attentionx") and "," not in entry["attention"]
    if is_bare:  # its width is that of what it scans
        found["ffn_intermediate"] = 0
    if found["n_experts"] and not found["moe_ffn"]:
        found["moe_ffn"] = found["ffn_intermediate"]
    dropouts = [f"{name}={value}" for name in _DROPOUTS if (value := getattr(config, name, 0))]
    has_gate = any(each.endswith(("gate_proj", "feed_forward.w1", "weights_in")) for each, _ in model.named_modules())
    depths = (getattr(config, "encoder_layers", 0), getattr(config, "decoder_layers", 0))
    return {
        **dict.fromkeys(columns, ""),
        **found,
        "hf_id": entry["id"],
        "model_type": config.model_type,
        "family": entry.get("family", entry["classes"][1]),
        "params_total": params,
        "params_verified": "published" in entry,
        "tie_word_embeddings": bool(getattr(text, "tie_word_embeddings", False)),
        "norm": "RMSNorm" if any("RMSNorm" in name for name in names) else "LayerNorm",
        "gated_mlp": has_gate,
        "attention": entry.get("attention", ""),
        "uses_dropout": ";".join(dropouts) or "none",
        "enc_dec": f"enc_layers={depths[0]} dec_layers={depths[1]}" if all(depths) else "",
        "vision": entry.get("vision", ""),
        "source": f"transformers {transformers.__version__} {entry['classes'][1]} on the meta device; listing.toml",
    }


def main() -> None:
    """Write or replace the rows."""
    with _MODELS.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    columns = list(rows[0])
    table = {row["hf_id"]: row for row in rows}
    for entry in parse_toml(_LISTING.read_text(encoding="utf-8"))["model"]:
        table[entry["id"]] = {name: str(value) for name, value in _row(entry, columns).items()}
        print(entry["id"], table[entry["id"]]["params_total"])
    with _MODELS.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, columns, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(table.values())


if __name__ == "__main__":
    main()
