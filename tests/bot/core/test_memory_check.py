"""The memory check with the real estimator: a Slurm script that a pull request adds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.core import commands
from bot.core.commands import Command, CommandContext
from bot.core.config import Config, load
from bot.core.ledger import Ledger, Override
from bot.core.plan import CheckOutcome
from bot.core.review import Engines, MemoryTree, ReviewInput, review
from bot.sources.base import ChangedFile, PullSnapshot
from bot.workshop.run_configs import run_configs
from estimator.api import Impact

SCRIPT = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
args = TrainingArguments(output_dir="x", per_device_train_batch_size=8)
Trainer(model=model, args=args).train()
"""
SLURM = "#!/bin/bash\n#SBATCH --gres=gpu:{}:1\npython finetune.py\n"
HEAD = "b" * 40


def answer(command: Command, context: CommandContext) -> str:
    said = commands.answer(command, context)
    assert isinstance(said, str)
    return said


def tree(gpu: str) -> MemoryTree:
    return MemoryTree({"finetune.py": SCRIPT.encode(), "run.slurm": SLURM.format(gpu).encode()})


def given(gpu: str, config: Config) -> ReviewInput:
    patch = "@@ -0,0 +1,3 @@\n+#!/bin/bash\n+#SBATCH\n+python finetune.py"
    snapshot = PullSnapshot(
        repo_id=1,
        full_name="o/r",
        number=3,
        author="ann",
        title="t",
        is_draft=False,
        is_open=True,
        base_ref="main",
        base_sha=HEAD,
        head_sha=HEAD,
        merge_base_sha=HEAD,
        changed_files=(ChangedFile(path="run.slurm", status="added", patch=patch),),
    )
    base = MemoryTree({"finetune.py": SCRIPT.encode()})
    return ReviewInput(snapshot=snapshot, head=tree(gpu), base=base, config=config)


def memory_check(gpu: str, config: Config) -> tuple[CheckOutcome, int]:
    plan = review(given(gpu, config))
    return plan.checks[1], len(plan.comments)


@pytest.mark.parametrize(("mode", "conclusion"), [("block", "failure"), ("advisory", "neutral"), ("warn", "neutral")])
def test_a_job_that_cannot_fit_fails_only_under_block(mode: str, conclusion: str) -> None:
    check, num_comments = memory_check("t4", Config(memory=mode))  # type: ignore[arg-type]
    assert (check.conclusion, check.state) == (conclusion, "exceeds")
    assert num_comments == 1
    assert "What would help" in check.text
    assert "finetune.py:3" in check.text
    assert "cannot fit" in check.summary


def test_a_gpu_nobody_knows_blocks_nothing() -> None:
    check, num_comments = memory_check("mystery", Config())
    assert (check.conclusion, num_comments) == ("neutral", 0)


def test_a_command_starts_from_the_changed_launch_config_and_says_where_its_values_are_from() -> None:
    configs = run_configs(tree("t4"), given("t4", Config()))
    assert configs["run.slurm"]["micro_batch"] == 8
    context = CommandContext(head_sha=HEAD, run_configs=configs)
    text = answer(Command(name="estimate", words=("A100", "run.slurm", "--seq-len", "512")), context)
    assert "`run.slurm`" in text
    assert "Llama" in text
    assert "finetune.py:3" in text
    assert "run config" not in text


def test_a_file_with_two_commands_gives_two_estimates() -> None:
    both = SLURM.format("t4") + "python finetune.py --per_device_train_batch_size 1\n"
    head = MemoryTree({"finetune.py": SCRIPT.encode(), "run.slurm": both.encode()})
    configs = run_configs(head, given("t4", Config()))
    assert list(configs) == ["run.slurm:3", "run.slurm:4"]
    context = CommandContext(head_sha=HEAD, run_configs=configs)
    for words, expected in ((("A100",), 2), (("A100", "run.slurm"), 2), (("A100", "run.slurm:4"), 1)):
        assert answer(Command(name="estimate", words=words), context).count("as the command changes it") == expected


NET = b"""
import torch, torch.nn as nn
from torch.utils.data import DataLoader
from data import Images

model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 1, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x in DataLoader(Images(), batch_size=8, shuffle=True):
    model(x.cuda()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("path", ["train.py", "run.slurm"])
def test_a_command_runs_the_network_of_the_repository_at_the_size_it_names(path: str) -> None:
    head = MemoryTree({"train.py": NET, "run.slurm": b"#!/bin/bash\n#SBATCH --gres=gpu:t4:1\npython train.py\n"})
    texts = []
    for words in (("A100-80GB", path), ("A100-80GB", path, "--image-size", "300")):
        context = CommandContext(head_sha=HEAD, run_configs=run_configs(head, given("t4", Config()), words))
        texts.append(answer(Command(name="estimate", words=words), context))
    assert "image size: the interval is for 32x32 to 1024x1024" in texts[0]
    assert "3x300x300" in texts[1]
    assert "the interval is for" not in texts[1]


def test_wrong_options_of_a_command_are_told_of_all_the_same() -> None:
    head = MemoryTree({"train.py": NET})
    words = ("train.py", "--image-size", "huge")
    context = CommandContext(head_sha=HEAD, run_configs=run_configs(head, given("t4", Config()), words))
    assert "not 'huge'" in answer(Command(name="estimate", words=words), context)


def test_the_check_names_the_origin_of_every_input() -> None:
    check, _ = memory_check("t4", Config())
    assert "Inputs and where they come from" in check.text
    assert "run.slurm:2" in check.text


def test_an_override_lets_its_commit_pass_and_no_other() -> None:
    row = Override(check="memory", sha=HEAD, reason="measured @node", who="omar", when="2026-11-30T00:00:00Z")
    plan = review(replace(given("t4", Config()), ledger=Ledger(overrides=(row,))))
    check = plan.checks[1]
    assert (check.conclusion, check.state) == ("success", "overridden")
    assert check.title.startswith("Overridden by omar: ")
    assert "cannot fit" in check.summary
    assert "@node" not in check.summary  # mentions nobody
    assert {note.level for note in check.annotations} == {"notice"}
    other = Ledger(overrides=(replace(row, sha="c" * 40),))
    assert review(replace(given("t4", Config()), ledger=other)).checks[1].state == "exceeds"


def test_an_override_also_passes_a_commit_that_preflight_failed_on() -> None:
    def broken(*_: object) -> tuple[Impact, ...]:
        raise ZeroDivisionError

    row = Override(check="memory", sha=HEAD, reason="measured", who="omar", when="2026-11-30T00:00:00Z")
    asked = replace(given("t4", Config(on_failure="failure")), ledger=Ledger(overrides=(row,)))
    assert review(asked, Engines(affected=broken)).checks[1].state == "overridden"
    assert review(replace(asked, ledger=Ledger()), Engines(affected=broken)).checks[1].conclusion == "failure"


@pytest.mark.parametrize(
    ("rows", "conclusion"),
    [
        ([("research/*", "advisory"), ("prod/*", "block")], "failure"),
        ([("research/*", "block"), ("prod/*", "warn")], "neutral"),
        ([("*", "advisory"), ("prod/a.slurm", "block")], "failure"),
        ([("prod/*", "block"), ("prod/a.slurm", "advisory")], "neutral"),
    ],
)
def test_the_policy_of_the_path_that_cannot_fit_decides(rows: list[tuple[str, str]], conclusion: str) -> None:
    lines = "".join(f"  - {{match: '{glob}', mode: {{memory: {mode}}}}}\n" for glob, mode in rows)
    config, problems = load(f"paths:\n{lines}", "x.yml")
    assert problems == ()
    files = {"finetune.py": SCRIPT, "prod/a.slurm": SLURM.format("t4"), "research/b.slurm": SLURM.format("h200")}
    asked = given("t4", config)
    changed = tuple(ChangedFile(path=path, status="added", patch="@@ -0,0 +1,1 @@\n+x") for path in list(files)[1:])
    head = MemoryTree({path: text.encode() for path, text in files.items()})
    plan = review(replace(asked, head=head, snapshot=replace(asked.snapshot, changed_files=changed)))
    assert (plan.checks[1].conclusion, plan.checks[1].state) == (conclusion, "exceeds")
