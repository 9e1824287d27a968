"""What of a large tree is fetched because it may start a run or say what one does."""

from __future__ import annotations

from bot.sources.github import by_names, mentioned_files
from bot.sources.launch_paths import MAX_CONFIG_BYTES, MAX_CONFIGS, named_configs, starting_points


def test_scripts_makefiles_workflows_and_telling_configs_are_read_in_a_large_tree() -> None:
    wanted = {
        "run.slurm": 100,
        "Makefile": 100,
        "rules/train.mk": 100,
        ".github/workflows/gpu.yml": 100,
        "configs/model.yaml": 100,
        "ds_config.json": 100,
        "k8s/job.yaml": 100,
        "requirements.txt": 100,
    }
    others = {
        "package.json": 100,
        ".vscode/train.json": 100,
        "node_modules/x/train.yaml": 100,
        "configs/enormous.yaml": MAX_CONFIG_BYTES + 1,
        "picture.png": 100,
    }
    noise = {f"src/m{number}.py": 10 for number in range(1_000)}
    found = starting_points({**wanted, **others, **noise})
    assert set(wanted) <= set(found)
    assert not set(others) & set(found)


def test_configuration_files_are_bounded_and_the_likeliest_come_first() -> None:
    many = {f"experiments/deep/er/e{number:04}.yaml": 100 for number in range(5_000)}
    found = starting_points({**many, ".github/workflows/gpu.yml": 10, "configs/top.yaml": 10})
    assert {".github/workflows/gpu.yml", "configs/top.yaml"} <= set(found)
    assert len(found) <= MAX_CONFIGS


def test_a_script_names_its_configuration_beside_it_or_from_the_root() -> None:
    known = {"pkg/train.py", "pkg/run.yaml", "configs/model.yaml", "other/run.yaml"}
    source = b'open("run.yaml"); open("configs/model.yaml"); open("../../etc/passwd.yaml"); open("gone.json")'
    assert set(named_configs(source, "pkg/train.py", known)) == {"pkg/run.yaml", "configs/model.yaml"}


def test_a_launch_file_names_scripts_modules_and_files_by_their_ends() -> None:
    known = ["src/train.py", "src/eval.py", "pkg/tool.py", "conf/zero3.json"]
    text = b"torchrun /scratch/repo/src/train.py --deepspeed zero3.json\npython -m pkg.tool\n"
    assert mentioned_files(text, "jobs/a.slurm", known, by_names(known)) == [
        "conf/zero3.json",
        "pkg/tool.py",
        "src/train.py",
    ]
