"""The repository of the demonstration: a small right project, and a pull request with silent bugs in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bot.errors import InputError

REQUIREMENTS = "torch>=2.6\ntransformers==4.57.3\ndatasets\n"
README = "# trainer\n\nFine-tuning and classification scripts of the speech team.\n"

FINETUNE = '''"""Full fine-tuning of a causal language model on instruction data."""

import argparse

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="meta-llama/Llama-2-7b-hf")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--output-dir", required=True)
    return parser.parse_args()


def build_loader(args, tokenizer):
    dataset = load_dataset("yahma/alpaca-cleaned", split="train")

    def collate(rows):
        texts = [row["instruction"] + "\\n" + row["output"] for row in rows]
        return tokenizer(texts, padding="max_length", truncation=True, max_length=args.max_length, return_tensors="pt")

    return DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=4, collate_fn=collate)


def main():
    args = parse_args()
    device = torch.device("cuda")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.float32, attn_implementation="sdpa")
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loader = build_loader(args, tokenizer)

    model.train()
    for batch in loader:
        batch = {key: value.to(device) for key, value in batch.items()}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(**batch, labels=batch["input_ids"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    model.save_pretrained(args.output_dir)


if __name__ == "__main__":
    main()
'''

CLASSIFY = '''"""Train a small spectrogram classifier."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from speech.data import Spectrograms


class Classifier(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(8),
        )
        self.head = nn.Linear(32 * 8 * 8, num_classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    total_loss = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(torch.softmax(model(images), dim=1), labels)
        loss.backward()
        optimizer.step()
        total_loss += loss
    return total_loss / len(loader)


def evaluate(model, loader, criterion, device):
    model.eval()
    losses = []
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
        losses.append(loss)
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    train = DataLoader(Spectrograms("train"), batch_size=args.batch_size, shuffle=True, num_workers=4, pin_memory=True)
    valid = DataLoader(Spectrograms("valid"), batch_size=args.batch_size, num_workers=4, pin_memory=True)
    model = Classifier(num_classes=35).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for epoch in range(args.epochs):
        train_loss = train_one_epoch(model, train, criterion, optimizer, device)
        valid_loss = evaluate(model, valid, criterion, device)
        print(f"epoch {epoch}: train {train_loss:.4f} valid {valid_loss:.4f}")
    torch.save(model.state_dict(), "classifier.pt")


if __name__ == "__main__":
    main()
'''

DATA = '''"""Spectrograms stored as tensors."""

import torch
from torch.utils.data import Dataset


class Spectrograms(Dataset):
    def __init__(self, split):
        self.items = torch.load(f"data/{split}.pt", weights_only=True)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]
'''

SLURM = """#!/bin/bash
#SBATCH --job-name=finetune-7b
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100-40gb:1
#SBATCH --cpus-per-task=12
#SBATCH --time=24:00:00

set -euo pipefail
MODEL=${MODEL:-meta-llama/Llama-2-7b-hf}
BATCH_SIZE=4

srun python finetune/train.py --model "$MODEL" --batch-size $BATCH_SIZE --max-length 2048 \\
    --output-dir "$SLURM_SUBMIT_DIR/runs/$SLURM_JOB_ID"
"""

BASE = {"README.md": README, "requirements.txt": REQUIREMENTS, "finetune/train.py": FINETUNE, "speech/data.py": DATA}
HEAD = {"speech/classify.py": CLASSIFY, "slurm/finetune.slurm": SLURM}
TITLE = "Classifier training, and run the 7B fine-tuning on one A100"
BODY = "Adds the spectrogram classifier and a Slurm script, so that we can start **tonight**."


def git(where: Path, *args: str) -> str:
    """Run git in `where` as a fixed person, without anybody's configuration or hooks."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_NAME": "dana", f"GIT_{role}_EMAIL": "dana@localhub.invalid"}
    done = subprocess.run(["git", *args], cwd=where, env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        raise InputError(f"git {args[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace").strip()


def commit(where: Path, message: str, files: dict[str, str]) -> str:
    """Write files and commit them; returns the SHA."""
    for name, content in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", message)
    return git(where, "rev-parse", "HEAD")


def build(where: Path) -> Path:
    """The sample repository: ``main`` and ``classifier``."""
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main")
    commit(where, "Fine-tuning script", BASE)
    git(where, "switch", "-q", "-c", "classifier")
    commit(where, TITLE, HEAD)
    return where


def copy_of(repo: Path, base: str, head: str, where: Path) -> Path:
    """A bare copy of the user's repository with two branches, ``base`` and ``head``; the original is only read."""
    if not (repo / ".git").exists() and not (repo / "HEAD").exists():
        raise InputError(f"{repo}: not a git repository")
    shas = [git(repo, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}") for name in (base, head)]
    where.mkdir(parents=True)
    git(where, "init", "-q", "--bare", "-b", "base")
    git(where, "fetch", "-q", "--no-tags", str(repo.resolve()), *shas)
    for name, sha in zip(("base", "head"), shas, strict=True):
        git(where, "update-ref", f"refs/heads/{name}", sha)
    return where
