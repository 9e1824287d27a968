"""Trees that want to be expensive, endless or run: bounded time and memory, notes for what is not read, nothing run."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.core.branch import check_branch
from bot.core.review_input import MemoryTree, ReviewInput
from bot.sources.base import PullSnapshot

_TRAIN = """\
import os
os.system("touch OWNED")
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("o")).train()
"""
_LAUNCHES = """\
import sys
from bot.cli.main import run
code = run(["launches", "--format", "json"])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""
_MOST_CPU_SECONDS = 60
_MOST_KIB = 600_000


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "apiVersion: batch/v1\nkind: Job\n" + "\n".join(lines) + "\n"


def _hostile(folder: Path) -> None:
    evil = (
        "#!/bin/bash\n#SBATCH --gres=gpu:h100:1\n$(touch OWNED)\nX=`touch OWNED`\nrm -rf OWNED &\n"
        'eval "$(touch OWNED)"\npython t.py --batch $(touch OWNED; echo 4)\n'
    )
    launch = "accelerate launch --config_file {}.yaml t.py\n"
    branches = "".join(f"if [ $A{i} = 1 ]; then B{i}=1; fi\n" for i in range(3_000))
    files = {
        "t.py": _TRAIN,
        "bomb.yaml": _bomb(),
        "self.yaml": "apiVersion: batch/v1\nkind: Job\nspec: &s {template: *s, again: [*s, *s]}\n",
        "merge.yaml": "apiVersion: v1\nkind: Pod\nspec: &a\n  <<: *a\n  containers: []\n",
        "deep.yaml": "apiVersion: v1\nkind: Job\nspec: " + "[" * 20_000 + "]" * 20_000,
        "deep.json": '{"a":' * 50_000 + "1" + "}" * 50_000,
        "conf/config.yaml": "defaults: [config, other, _self_]\nx: ${y}\n",
        "conf/other.yaml": "defaults: [config]\ny: ${x}\n",
        "app.py": "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(c): ...\nmain()\n",
        "hydra.sh": "#!/bin/bash\npython app.py\n",
        "loop1.sh": "#!/bin/bash\nsource loop2.sh\nbash loop1.sh\npython t.py\n",
        "loop2.sh": "#!/bin/bash\nsource loop1.sh\nsource loop2.sh\n",
        "Makefile": "include Makefile\ninclude a.mk\ntrain:\n\tpython t.py\n\t$(MAKE) train\n",
        "a.mk": "include Makefile\n",
        "evil.slurm": evil,
        "dots.sh": "#!/bin/bash\nsource ../../../etc/profile\npython ../../../outside.py\npython /etc/evil.py\n",
        "many.sh": f"#!/bin/bash\n{branches}python t.py\n",
        "long.sh": "#!/bin/bash\npython t.py " + "--x 1 " * 60_000 + "\n",
        "named.sh": f"#!/bin/bash\n{launch.format('bomb')}{launch.format('huge')}",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with (folder / "huge.yaml").open("w") as stream:
        stream.write("apiVersion: batch/v1\nkind: Job\nitems:\n")
        for _ in range(500):
            stream.write("  - name: a value of some length\n" * 3_000)
    (folder / "link.slurm").symlink_to("/etc/passwd")
    (folder / "outside").symlink_to("/")
    (folder / "inside").symlink_to(".")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_hostile_tree_is_listed_in_bounded_time_and_memory_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(_TRAIN)
    folder = tmp_path / "a" / "tree"
    folder.mkdir(parents=True)
    _hostile(folder)
    assert (folder / "huge.yaml").stat().st_size > 45_000_000
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-I", "-c", _LAUNCHES], cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert after.ru_utime - before.ru_utime < _MOST_CPU_SECONDS
    assert int(done.stderr.split()[-1]) < _MOST_KIB
    assert list(tmp_path.rglob("OWNED")) == []
    document = json.loads(done.stdout)
    found = {launch["path"]: launch for launch in document["launches"]}
    assert {"evil.slurm", "loop1.sh", "Makefile", "named.sh"} <= found.keys()
    assert not {"link.slurm", "inside/evil.slurm"} & found.keys()
    assert "dots.sh" not in found or all("outside" not in text for text in found["dots.sh"]["origins"].values())
    assert found["evil.slurm"]["target"]["gpu"] == "h100"
    notes = {item["path"]: item["reason"] for item in document["skipped"]}
    assert "steps" in notes["many.sh"]
    assert "256 KiB" in notes["long.sh"]
    assert any("huge.yaml" in f"{path} {reason}" and "KiB are read at most" in reason for path, reason in notes.items())


def test_two_thousand_launch_files_are_bounded_and_what_is_left_out_is_said() -> None:
    train = _TRAIN.replace('os.system("touch OWNED")\n', "")
    job = "#!/bin/bash\n#SBATCH --gres=gpu:h100:1\npython t.py\n"
    files: dict[str, bytes | None] = {f"jobs/j{number:04}.slurm": job.encode() for number in range(2_000)}
    snapshot = PullSnapshot(
        repo_id=1, full_name="a/b", number=0, author="", title="", is_draft=False, is_open=True, base_ref="",
        base_sha="a" * 40, head_sha="a" * 40, merge_base_sha="a" * 40, changed_files=(),
    )  # fmt: skip
    head = MemoryTree({**files, "t.py": train.encode()})
    start = time.process_time()
    (check,) = check_branch(ReviewInput(snapshot=snapshot, head=head, base=MemoryTree({}))).checks
    assert time.process_time() - start < _MOST_CPU_SECONDS
    assert (check.state, check.title) == ("ok", "300 launch configs: 300 fit")
    assert "1600 more files" in check.summary
    assert "99 more files not estimated" in check.summary
    assert "… and 270 more launch configs" in check.summary
