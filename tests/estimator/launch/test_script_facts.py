"""What calls say about a run: the table of frameworks applied to call sites made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from analyzer.api import CallSite, Known, Origin, Unseen
from estimator.launch.base import Arg
from estimator.resolve import arguments, frameworks
from estimator.resolve.script import configs_from
from estimator.resolve.versions import major_version
from estimator.runconfig import RunConfig
from estimator.sourced import Unknown
from tests.estimator.launch.sites import call, known, ref
from tests.estimator.launch.trees import Tree

MODEL = call("transformers.AutoModelForCausalLM.from_pretrained", _0="org/model", torch_dtype=ref("torch.float32"))
BF16_MODEL = call("transformers.AutoModelForCausalLM.from_pretrained", _0="org/model", dtype=ref("torch.bfloat16"))
BARE_MODEL = call("transformers.AutoModelForCausalLM.from_pretrained", _0="org/model")
ADAMW = call("torch.optim.AdamW")
AUTOCAST = call("torch.autocast", _0="cuda", dtype=ref("torch.bfloat16"))


def run_of(*sites: CallSite, requirements: str = "") -> RunConfig:
    (run,) = configs_from(frameworks.gather(sites), Tree({"requirements.txt": requirements}))
    return run


def said(run: RunConfig, name: str) -> Any:
    value = run.words()[name].value
    return value.plausible or value.reason if isinstance(value, Unknown) else value


def tokenized(**arguments: Any) -> CallSite:
    return call("*.__call__", on="transformers.AutoTokenizer", max_length=512, truncation=True, **arguments)


FIELDS: list[tuple[str, tuple[CallSite, ...], str, object]] = [
    ("model", (MODEL, ADAMW), "model", "org/model"),
    (
        "tokenizer is no model",
        (call("transformers.AutoTokenizer.from_pretrained", _0="x/y"), MODEL),
        "model",
        "org/model",
    ),
    (
        "receiver names the class",
        (call("*.from_pretrained", on="transformers.AutoConfig", _0="x/y"), MODEL),
        "model",
        "org/model",
    ),
    ("loader", (MODEL, call("torch.utils.data.DataLoader", batch_size=8)), "micro_batch", 8),
    ("loader by position", (MODEL, call("torch.utils.data.DataLoader", _0=ref("d"), _1=8)), "micro_batch", 8),
    ("loader default", (MODEL, call("torch.utils.data.DataLoader", _0=ref("d"))), "micro_batch", 1),
    (
        "training loader shuffles",
        (
            MODEL,
            call("torch.utils.data.DataLoader", batch_size=64),
            call("torch.utils.data.DataLoader", batch_size=8, shuffle=True),
        ),
        "micro_batch",
        8,
    ),
    (
        "training loader has a sampler",
        (
            MODEL,
            call("torch.utils.data.DataLoader", batch_size=8, sampler=ref("s")),
            call("torch.utils.data.DataLoader", batch_size=64),
        ),
        "micro_batch",
        8,
    ),
    ("loaders that differ", (MODEL, call("torch.utils.data.DataLoader", batch_size=(4, 8))), "micro_batch", (4, 8)),
    (
        "TrainingArguments",
        (MODEL, call("transformers.TrainingArguments", per_device_train_batch_size=4)),
        "micro_batch",
        4,
    ),
    ("TrainingArguments default", (MODEL, call("transformers.TrainingArguments")), "micro_batch", 8),
    ("accumulation", (MODEL, call("transformers.TrainingArguments", gradient_accumulation_steps=4)), "grad_accum", 4),
    (
        "Trainer optimizer",
        (MODEL, call("transformers.TrainingArguments", optim="paged_adamw_8bit")),
        "optimizer",
        "adamw-8bit-paged",
    ),
    ("Trainer default optimizer", (MODEL, call("transformers.TrainingArguments")), "optimizer", "adamw"),
    ("AdamW", (MODEL, ADAMW), "optimizer", "adamw"),
    ("SGD", (MODEL, call("torch.optim.SGD", lr=0.1)), "optimizer", "sgd"),
    ("SGD with momentum", (MODEL, call("torch.optim.SGD", lr=0.1, momentum=0.9)), "optimizer", "sgd-momentum"),
    ("SGD with zero momentum", (MODEL, call("torch.optim.SGD", momentum=0.0)), "optimizer", "sgd"),
    ("8-bit", (MODEL, call("bitsandbytes.optim.AdamW8bit")), "optimizer", "adamw-8bit"),
    ("two optimizers", (MODEL, ADAMW, call("torch.optim.SGD")), "optimizer", ("adamw", "sgd")),
    ("fp32", (MODEL, ADAMW), "precision", "fp32"),
    ("autocast", (MODEL, ADAMW, AUTOCAST), "precision", "amp-bf16"),
    ("autocast default is fp16", (MODEL, ADAMW, call("torch.autocast", _0="cuda")), "precision", "amp-fp16"),
    ("bf16 weights", (BF16_MODEL, ADAMW), "precision", "pure-bf16"),
    ("autocast over bf16 weights stays bf16", (BF16_MODEL, ADAMW, AUTOCAST), "precision", "pure-bf16"),
    ("Trainer bf16", (MODEL, call("transformers.TrainingArguments", bf16=True)), "precision", "amp-bf16"),
    ("Trainer bf16 off", (MODEL, call("transformers.TrainingArguments", bf16=False)), "precision", "fp32"),
    ("Accelerator", (MODEL, ADAMW, call("accelerate.Accelerator", mixed_precision="fp16")), "precision", "amp-fp16"),
    (
        "half after loading",
        (BARE_MODEL, call("*.half", on="transformers.AutoModel.from_pretrained"), ADAMW),
        "precision",
        "pure-fp16",
    ),
    ("half of a tensor says nothing", (MODEL, call("*.half", on="torch.randn"), ADAMW), "precision", "fp32"),
    ("checkpointing by call", (MODEL, ADAMW, call("*.gradient_checkpointing_enable")), "grad_checkpointing", "full"),
    (
        "checkpointing by argument",
        (MODEL, call("transformers.TrainingArguments", gradient_checkpointing=True)),
        "grad_checkpointing",
        "full",
    ),
    ("no checkpointing", (MODEL, ADAMW), "grad_checkpointing", "none"),
    ("full", (MODEL, ADAMW), "method", "full"),
    ("lora", (MODEL, ADAMW, call("peft.LoraConfig", r=16), call("peft.get_peft_model")), "method", "lora"),
    ("lora rank", (MODEL, ADAMW, call("peft.LoraConfig", r=16)), "lora_rank", 16),
    ("lora default rank", (MODEL, ADAMW, call("peft.LoraConfig")), "lora_rank", 8),
    (
        "qlora",
        (MODEL, call("transformers.BitsAndBytesConfig", load_in_4bit=True), call("peft.LoraConfig"), ADAMW),
        "method",
        "qlora",
    ),
    ("quantization", (MODEL, call("transformers.BitsAndBytesConfig", load_in_4bit=True)), "quantization", "nf4"),
    (
        "attention",
        (call("transformers.AutoModel.from_pretrained", _0="m", attn_implementation="flash_attention_2"), ADAMW),
        "attention",
        "flash",
    ),
    ("ddp", (MODEL, ADAMW, call("torch.nn.parallel.DistributedDataParallel")), "sharding", "ddp"),
    ("fsdp", (MODEL, ADAMW, call("torch.distributed.fsdp.FullyShardedDataParallel")), "sharding", "fsdp"),
    (
        "fsdp strategy",
        (
            MODEL,
            ADAMW,
            call(
                "torch.distributed.fsdp.FullyShardedDataParallel",
                sharding_strategy=ref("torch.distributed.fsdp.ShardingStrategy.SHARD_GRAD_OP"),
            ),
        ),
        "sharding",
        "zero2",
    ),
    (
        "fsdp mixed precision",
        (MODEL, ADAMW, call("torch.distributed.fsdp.MixedPrecision", param_dtype=ref("torch.bfloat16"))),
        "precision",
        "amp-bf16",
    ),
    ("fsdp offload", (MODEL, ADAMW, call("torch.distributed.fsdp.CPUOffload", _0=True)), "offload", "both"),
    ("sequence length of SFTConfig", (MODEL, call("trl.SFTConfig", max_length=2048)), "seq_len", 2048),
    (
        "trainer argument beats tokenizer",
        (
            call("transformers.AutoTokenizer.from_pretrained", model_max_length=4096),
            MODEL,
            call("trl.SFTConfig", max_length=512),
        ),
        "seq_len",
        512,
    ),
    (
        "tokenizer limit",
        (call("transformers.AutoTokenizer.from_pretrained", model_max_length=4096), MODEL, ADAMW),
        "seq_len",
        4096,
    ),
    ("rows padded to the bound", (MODEL, ADAMW, tokenized(padding="max_length")), "packing", True),
    ("rows padded to the longest", (MODEL, ADAMW, tokenized(padding=True)), "packing", False),
    ("rows not padded", (MODEL, ADAMW, tokenized()), "packing", False),
    ("rows perhaps padded", (MODEL, ADAMW, tokenized(padding=("max_length", False))), "packing", (False, True)),
    ("a trainer that packs", (MODEL, tokenized(), call("trl.SFTConfig", packing=True)), "packing", True),
    ("train", (MODEL, ADAMW), "task", "train"),
    ("generate", (MODEL, call("*.generate", max_new_tokens=64)), "task", "generate"),
    ("generate inside training", (MODEL, ADAMW, call("*.generate", max_new_tokens=64)), "task", "train"),
    ("infer", (MODEL,), "task", "infer"),
]


@pytest.mark.parametrize(
    ("sites", "field", "expected"), [case[1:] for case in FIELDS], ids=[case[0] for case in FIELDS]
)
def test_calls_say_fields(sites: tuple[CallSite, ...], field: str, expected: object) -> None:
    assert said(run_of(*sites), field) == expected


VERSIONS = [
    ("", ("pure-bf16", "fp32")),
    ("transformers\n", ("pure-bf16", "fp32")),
    ("transformers>=4.40\n", ("pure-bf16", "fp32")),
    ("transformers==4.57.3\n", "fp32"),
    ("transformers[torch]~=4.40 ; python_version > '3'\n", "fp32"),
    ("transformers>=4.40,<5\n", "fp32"),
    ("transformers==5.1.0\n", ("pure-bf16", "fp32")),
    ("sentence-transformers==3.0\n", ("pure-bf16", "fp32")),
]


@pytest.mark.parametrize(("requirements", "expected"), VERSIONS)
def test_the_default_dtype_depends_on_the_pinned_version(requirements: str, expected: object) -> None:
    assert said(run_of(BARE_MODEL, ADAMW, requirements=requirements), "precision") == expected


def test_a_pin_is_read_from_pyproject_too() -> None:
    tree = Tree({"pyproject.toml": '[project]\ndependencies = ["transformers>=5.0,<6", "torch"]\n'})
    found = major_version(tree, "transformers")
    assert (found.value, found.origin.path, found.origin.line) == (5, "pyproject.toml", 2)


def test_an_override_keeps_what_it_overrides() -> None:
    default = Known(1, Origin("train.py", 14, "default 1"))
    given = Known(8, Origin("run.sh", 3, "--batch-size 8"), (default,))
    run = run_of(MODEL, call("torch.utils.data.DataLoader", batch_size=given))
    assert run.micro_batch.describe() == "run.sh:3 (--batch-size 8), overrides train.py:14 (default 1)"


def test_a_value_the_code_does_not_show_is_unknown_with_its_reason() -> None:
    hidden = Unseen("argument --batch-size is required", Origin("train.py", 9))
    run = run_of(MODEL, call("torch.utils.data.DataLoader", batch_size=hidden))
    assert said(run, "micro_batch") == "argument --batch-size is required"


def test_nonsense_values_are_unknown_not_fatal() -> None:
    run = run_of(MODEL, call("torch.utils.data.DataLoader", batch_size=-3), call("torch.optim.SGD", momentum="x"))
    assert isinstance(run.micro_batch.value, Unknown)


def test_a_second_model_is_named() -> None:
    run = run_of(MODEL, call("transformers.AutoModel.from_pretrained", _0="org/teacher"), ADAMW)
    assert (run.model.value, "org/teacher" in run.not_understood[0][1]) == ("org/model", True)


def test_a_script_without_model_or_training_is_no_run() -> None:
    assert configs_from(frameworks.gather([call("torch.utils.data.DataLoader", batch_size=8)]), Tree({})) == ()


def test_hf_argument_parser_options_are_fields_of_training_arguments() -> None:
    facts = frameworks.gather([call("transformers.HfArgumentParser")])
    words = "--model_name_or_path org/m --per_device_train_batch_size=2 --bf16 --gradient-checkpointing True"
    words += " --block_size 512"
    arguments.add_hf_options(facts, [Arg(word, "run.sh", 4) for word in words.split()])
    (run,) = configs_from(facts, Tree({"requirements.txt": "transformers==4.50"}))
    fields = ("model", "micro_batch", "precision", "grad_checkpointing", "seq_len", "optimizer", "grad_accum")
    assert [said(run, name) for name in fields] == ["org/m", 2, "amp-bf16", "full", 512, "adamw", 1]
    assert str(run.micro_batch.origin) == "run.sh:4 (--per_device_train_batch_size 2)"


@pytest.mark.parametrize(("option", "packing"), [("--block_size", None), ("--max_seq_length", False)])
def test_an_option_that_bounds_the_samples_does_not_say_that_they_are_full(option: str, packing: object) -> None:
    facts = frameworks.gather([call("transformers.HfArgumentParser")])
    words = ["--model_name_or_path", "org/m", option, "512"]
    arguments.add_hf_options(facts, [Arg(word, "run.sh", 4) for word in words])
    (run,) = configs_from(facts, Tree({}))
    assert (run.packing.value if run.packing.is_known else None) == packing


def test_every_row_of_the_table_has_a_source_and_known_fields() -> None:
    words = set(RunConfig().words()) | frameworks.DTYPE_FACTS | frameworks.PLAIN_FACTS
    for row in frameworks.table()["callee"]:
        assert row["source"], row["names"]
        fields = {*row.get("sets", {}), *(rule["field"] for rule in row.get("arguments", ()))}
        assert fields <= words, row["names"]


def test_alternatives_that_agree_are_one_value() -> None:
    run = run_of(MODEL, call("torch.utils.data.DataLoader", batch_size=(known(8, 1), known(8, 2))))
    assert said(run, "micro_batch") == 8
