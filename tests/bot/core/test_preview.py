"""A pull request that changes the configuration: its effect is shown, and it does not act."""

from __future__ import annotations

from bot.core.config import Config
from bot.core.review import review
from tests.bot.core.test_review import ENGINES, given

BAD = "kept.append(loss)\n"
YML = ".github/preflight.yml"
LAUNCH = "#!/bin/bash\n#SBATCH --partition=long\n#SBATCH --gres=gpu:1\nsrun python finetune.py\n"
TRAIN = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
args = TrainingArguments(output_dir="out", per_device_train_batch_size=1, bf16=True)
Trainer(model=model, args=args, train_dataset=[]).train()
"""


def _patch(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    return f"@@ -0,0 +1,{len(lines)} @@\n" + "\n".join(f"+{line}" for line in lines)


def test_the_effect_on_the_pull_request_is_shown_and_does_not_act() -> None:
    config = "mode: {code: block}\nrules: {severity: {PF101: warning}}\npaths: [{match: lab/, mode: {memory: warn}}]\n"
    head = {"a.py": BAD, YML: config}
    plan = review(given(head, {}, {"a.py": _patch(BAD), YML: _patch(config)}), ENGINES)
    code = plan.checks[0]
    assert code.conclusion == "neutral"
    assert {note.level for note in code.annotations} <= {"notice"}
    assert "Configuration preview" in code.summary
    assert "| `mode.code` | `advisory` | `block` |" in code.summary
    assert "| `PF101 a.py:1` | `error` | `warning` |" in code.summary
    assert "| `paths` | – | `lab/; memory: warn` |" in code.summary
    assert plan.summary is not None
    assert "Configuration preview" in plan.summary


def test_a_check_that_would_fail_is_announced() -> None:
    config = "mode: {code: block}\n"
    plan = review(given({"a.py": BAD, YML: config}, {}, {"a.py": _patch(BAD), YML: _patch(config)}), ENGINES)
    assert "| `preflight/code` | `neutral` | `failure` |" in plan.checks[0].summary


def test_without_effect_it_is_said_in_the_check_alone() -> None:
    config = "mode: {code: block}\n"
    plan = review(given({YML: config}, {}, {YML: _patch(config)}), ENGINES)
    assert "judged as it is now" in plan.checks[0].summary
    assert plan.summary is None, "a pull request with nothing to say gets no comment"


def test_what_is_the_same_or_unrelated_gets_no_preview() -> None:
    same = review(given({YML: "# a comment\n"}, {YML: ""}, {YML: "@@ -0,0 +1 @@\n+# a comment"}), ENGINES)
    other = review(given({"a.py": BAD}, {}, {"a.py": _patch(BAD)}), ENGINES)
    assert not any("preview" in check.summary for plan in (same, other) for check in plan.checks)


def test_new_targets_show_every_launch_config_of_the_repository() -> None:
    tree = {"finetune.py": TRAIN, "job.slurm": LAUNCH}
    config = "targets: {long: A100-40GB}\n"
    plan = review(given({**tree, YML: config}, tree, {YML: _patch(config)}), ENGINES)
    assert "| `targets.long` | – | `A100-40GB` |" in plan.checks[0].summary
    assert "| `job.slurm:4` | `unknown` | `exceeds` |" in plan.checks[0].summary
    assert plan.checks[1].conclusion == "success"
    assert plan.summary is not None
    assert "job.slurm" in plan.summary


def test_a_removed_configuration_gives_way_to_the_next_and_to_the_owners() -> None:
    toml = '[tool.preflight]\nmin_confidence = "certain"\n'
    base = {YML: "mode: {code: block}\n", "pyproject.toml": toml}
    asked = given(
        {"pyproject.toml": toml}, base, {YML: "@@ -1 +0,0 @@\n-mode: {code: block}"}, config=Config(code="block")
    )
    text = review(asked, ENGINES).checks[0].summary
    assert "| `mode.code` | `block` | `advisory` |" in text
    assert "| `min_confidence` | `likely` | `certain` |" in text
