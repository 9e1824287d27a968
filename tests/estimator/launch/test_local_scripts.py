"""Scripts as people write them by hand: every field is a value with its place, or unknown with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from bot.core.review import MemoryTree
from estimator.resolve.script import run_configs
from estimator.sourced import Unknown

CONSTANTS = """\
import torch
from transformers import AutoModelForCausalLM
from torch.utils.data import DataLoader
MODEL = "Qwen/Qwen2.5-7B-Instruct"
BATCH_SIZE = 8
model = AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(data, batch_size=BATCH_SIZE):
    model(**batch).loss.backward()
    optimizer.step()
"""
DATACLASS = """\
from dataclasses import dataclass
import torch
@dataclass
class Config:
    batch: int = 16
config = Config()
class Net(torch.nn.Module):
    def forward(self, x):
        return x
model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x in torch.utils.data.DataLoader(data, batch_size=config.batch):
    model(x).sum().backward()
    optimizer.step()
"""
TIMM = """\
import timm, torch
model = timm.create_model("vit_base_patch16_224", pretrained=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x in torch.utils.data.DataLoader(data, batch_size=256):
    model(x).sum().backward()
    optimizer.step()
"""
TRL = """\
import os, sys
from trl import SFTConfig, SFTTrainer
from peft import LoraConfig
config = SFTConfig(output_dir="o", per_device_train_batch_size=int(os.environ["BS"]), bf16=True, max_length=4096)
lora = LoraConfig(r=16, target_modules=["q_proj", "v_proj"])
SFTTrainer(model=sys.argv[1], args=config, train_dataset=data, peft_config=lora).train()
"""
NAMED_TRL = TRL.replace("sys.argv[1]", '"Qwen/Qwen3-8B"')


def words_of(script: str) -> dict[str, Any]:
    [run] = run_configs(MemoryTree({"train.py": script.encode()}), "train.py", ())
    return dict(run.words())


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (CONSTANTS, {"model": ("Qwen/Qwen2.5-7B-Instruct", 4), "micro_batch": (8, 5), "precision": ("pure-bf16", 6),
                     "optimizer": ("adamw", 8), "grad_checkpointing": ("full", 7)}),
        (DATACLASS, {"micro_batch": (16, 5), "optimizer": ("adamw", 11)}),
        (TIMM, {"model": ("vit_base_patch16_224", 2), "micro_batch": (256, 4), "optimizer": ("sgd-momentum", 3)}),
        (NAMED_TRL, {"model": ("Qwen/Qwen3-8B", 6), "seq_len": (4096, 4), "method": ("lora", 5), "lora_rank": (16, 5),
                     "packing": (False, 4), "lora_targets": (("q_proj", "v_proj"), 5)}),
    ],
)  # fmt: skip
def test_a_value_is_read_with_its_line(script: str, expected: dict[str, tuple[Any, int]]) -> None:
    words = words_of(script)
    assert {name: (words[name].value, words[name].origin.line) for name in expected} == expected
    assert {words[name].origin.path for name in expected} == {"train.py"}


@pytest.mark.parametrize(
    ("script", "name", "reason"),
    [
        (DATACLASS, "model", "no call that loads a model by its id"),
        (TRL, "model", "."),
        (TRL, "micro_batch", "when the program runs"),
        (TRL.replace('["q_proj", "v_proj"]', '["q_proj", sys.argv[2]]'), "lora_targets", "items are not followed"),
    ],
)
def test_what_the_code_does_not_show_is_unknown_with_the_reason(script: str, name: str, reason: str) -> None:
    value = words_of(script)[name].value
    assert isinstance(value, Unknown)
    assert reason == "." or reason in value.reason
