"""The gate's files for Slurm and Kubernetes: the wrapper with a fake ``sbatch``, the Lua in a real interpreter, the
manifests against Kubernetes' own schema."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml
from jsonschema import Draft7Validator

from bot.core.admission import KINDS

DEPLOY = Path(__file__).parents[2] / "deploy"
ADMISSION = DEPLOY / "kubernetes" / "admission"
TRAIN = (
    "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    'model = AutoModelForCausalLM.from_pretrained("{}")\nTrainer(model, TrainingArguments("o")).train()\n'
)
JOB = "#!/bin/bash\n#SBATCH --gres=gpu:{}:1\npython {}\n"


@dataclass
class Node:
    """A login node with the wrapper, our preflight and a fake ``sbatch``."""

    folder: Path

    def sbatch(self, *words: str, stdin: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
        conf = self.folder / "gate.conf"
        known = {name: str(self.folder / name.lower()) for name in ("SBATCH", "PREFLIGHT", "POLICY")}
        conf.write_text("".join(f"{name}='{value}'\n" for name, value in (known | settings).items()))
        return subprocess.run(
            [str(DEPLOY / "slurm" / "sbatch"), *words],
            cwd=self.folder / "work",
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PREFLIGHT_GATE_CONF": str(conf)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    programs = {
        "sbatch": '#!/bin/sh\nprintf "%s:" "$PREFLIGHT_GATE"\nprintf "<%s>" "$@"\ncat\nexit 7\n',
        "preflight": f'#!/bin/sh\nexec "{sys.executable}" -I -m preflight "$@"\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    files = {
        "small.py": TRAIN.format("gpt2"),
        "big.py": TRAIN.format("meta-llama/Llama-2-7b-hf"),
        "fits.slurm": JOB.format("h100", "small.py"),
        "big.slurm": JOB.format("t4", "big.py"),
    }
    for name, text in files.items():
        (work / name).write_text(text)
    return Node(tmp_path)


def test_the_wrapper_becomes_the_real_sbatch_or_stops(node: Node) -> None:
    done = node.sbatch("--comment", 'a  "b" $(c)', "fits.slurm")
    assert (done.returncode, done.stdout) == (7, 'passed:<--comment><a  "b" $(c)><fits.slurm>')
    blocked = node.sbatch("big.slurm")
    assert (blocked.returncode, blocked.stdout) == (1, "")
    assert "cannot fit its GPU" in blocked.stderr
    piped = node.sbatch("--parsable", stdin="#!/bin/sh\n")
    assert (piped.returncode, piped.stdout) == (7, "passed:<--parsable>#!/bin/sh\n")


def test_a_gate_that_cannot_be_asked_is_open_or_closed_as_the_site_says(node: Node) -> None:
    broken = {"PREFLIGHT": "/nonexistent/preflight"}
    assert node.sbatch("big.slurm", **broken).returncode == 7
    closed = node.sbatch("big.slurm", **broken, ON_ERROR="closed")
    assert (closed.returncode, closed.stdout) == (1, "")
    strict = node.sbatch("--wrap", "./simulate", "--gres=gpu:1", LENIENT="")
    assert (strict.returncode, strict.stdout) == (1, "")


def _job_submit() -> tuple[Any, Any, list[str]]:
    """The plugin's function, a maker of Lua tables, and what it tells the user."""
    runtime = lupa.LuaRuntime(unpack_returned_tuples=True)
    said: list[str] = []
    runtime.globals().slurm = runtime.table_from({"SUCCESS": 0, "ERROR": -1, "log_user": said.append})
    assert runtime.execute((DEPLOY / "slurm" / "job_submit.lua").read_text()) == 0
    return runtime.globals().slurm_job_submit, runtime.table_from, said


@pytest.mark.parametrize(
    ("job", "uid", "code"),
    [
        ({"script": "#!/bin/sh", "tres_per_node": "gres/gpu:a100:4"}, 1000, -1),
        ({"script": "#!/bin/sh", "tres_per_job": "gres/gpu:2", "environment": {"PREFLIGHT_GATE": "no"}}, 1000, -1),
        ({"script": "#!/bin/sh", "gres": "gpu:1", "environment": {"PREFLIGHT_GATE": "passed"}}, 1000, 0),
        ({"script": "#!/bin/sh", "tres_per_node": "gres/gpu:1"}, 0, 0),
        ({"script": "#!/bin/sh"}, 1000, 0),
        ({"tres_per_node": "gres/gpu:1"}, 1000, 0),
    ],
)
def test_the_plugin_refuses_gpu_batch_jobs_that_passed_no_gate(job: dict[str, Any], uid: int, code: int) -> None:
    submit, table, said = _job_submit()
    tables = {key: table(value) if isinstance(value, dict) else value for key, value in job.items()}
    assert submit(table(tables), table({}), uid) == code
    assert bool(said) is (code != 0)


@pytest.mark.parametrize(
    ("options", "environment", "code"),
    [
        ({"type": "sbatch", "gres": "gpu:a100:4"}, {}, -1),
        ({"type": "sbatch", "gpus": "2"}, {"PREFLIGHT_GATE": "no"}, -1),
        ({"type": "sbatch", "gpus-per-node": "h100:8", "gres": "unset"}, {}, -1),
        ({"type": "sbatch", "gres": "gpu:1", "export": "NONE"}, {"PREFLIGHT_GATE": "passed"}, 0),
        ({"type": "sbatch", "gres": "gpu:1"}, {"SLURM_JOB_ID": "7"}, 0),
        ({"type": "srun", "gres": "gpu:1"}, {}, 0),
        ({"type": "sbatch", "gres": "shard:2", "gpus": "0", "gpus-per-task": "invalid-context"}, {}, 0),
        ({"type": "sbatch"}, {}, 0),
    ],
)
def test_the_client_filter_refuses_gpu_batch_jobs_that_passed_no_gate(
    options: dict[str, str], environment: dict[str, str], code: int
) -> None:
    runtime = lupa.LuaRuntime(unpack_returned_tuples=True)
    said: list[str] = []
    runtime.globals().slurm = runtime.table_from({"SUCCESS": 0, "ERROR": -1, "log_error": said.append})
    runtime.globals().os.getenv = environment.get
    assert runtime.execute((DEPLOY / "slurm" / "cli_filter.lua").read_text()) == 0
    assert runtime.globals().slurm_cli_setup_defaults(runtime.table_from(options), True) == 0
    assert runtime.globals().slurm_cli_pre_submit(runtime.table_from(options), 0) == code
    assert bool(said) is (code != 0)
    assert runtime.globals().slurm_cli_post_submit(0, 1, 2) == 0


def _manifests() -> list[Path]:
    return sorted(path for path in ADMISSION.glob("*.yaml") if path.stem in {"gate", "webhook"})


def test_manifests_fit_kubernetes_own_schema() -> None:
    packed = (DEPLOY.parent / "tests" / "data" / "kubernetes-1.34.json.gz").read_bytes()
    schema = json.loads(gzip.decompress(packed))
    seen = set()
    for path in _manifests():
        for item in yaml.safe_load_all(path.read_text()):
            name = f"{item['apiVersion']}/{item['kind']}"
            root = {"$ref": f"#/definitions/{schema['kinds'][name]}", "definitions": schema["definitions"]}
            assert [error.message for error in Draft7Validator(root).iter_errors(item)] == []
            seen.add(item["kind"])
    assert seen == {"Deployment", "Service", "NetworkPolicy", "ValidatingWebhookConfiguration"}


def test_the_webhook_is_asked_about_every_kind_that_is_judged() -> None:
    (configuration,) = yaml.safe_load_all((ADMISSION / "webhook.yaml").read_text())
    (webhook,) = configuration["webhooks"]
    resources = {name for rule in webhook["rules"] for name in rule["resources"]}
    assert resources == {f"{kind.lower()}s" for kind in KINDS}
    assert webhook["sideEffects"] == "None"
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["clientConfig"]["service"]["path"] == "/admission"
    kustomization = yaml.safe_load((ADMISSION / "kustomization.yaml").read_text())
    assert sorted(kustomization["resources"]) == [path.name for path in _manifests()]
