"""The web process with its pages, in this process, on a real Redis; and reports of real reviews."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import redis
from flask.testing import FlaskClient

from bot.core.plan import Plan
from bot.core.review import MemoryTree, ReviewInput, review
from bot.pages.links import ReportRef, Signer
from bot.pages.settings import PageSettings
from bot.pages.shelf import Shelf
from bot.settings import Secret, WebSettings
from bot.sources.base import ChangedFile, PullSnapshot
from bot.store import Keys
from bot.web.app import create_app
from tests.support import WEBHOOK_SECRET

PUBLIC = "http://127.0.0.1:8000"
OPERATOR = "the-operators-token-0123456789"
SHA = "c" * 40
REF = ReportRef(repo_id=5, number=3, head_sha=SHA)
TRAIN = """import torch
from torch import nn
from transformers import AutoModel

model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())  # <script>alert(1)</script>
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""
LAUNCH = """#!/bin/bash
#SBATCH --gres=gpu:a100-40gb:1
# <img src=x onerror=alert(2)>
srun python finetune.py --batch-size 4 --max-length 2048
"""
FINETUNE = """import argparse, torch
from transformers import AutoModelForCausalLM
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=1)
parser.add_argument("--max-length", type=int, default=512)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", torch_dtype=torch.float32).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loader = torch.utils.data.DataLoader(make(args.max_length), batch_size=args.batch_size)
for batch in loader:
    loss = model(**batch, labels=batch["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FILES = {"train.py": TRAIN, "finetune.py": FINETUNE, "job.slurm": LAUNCH}


def plan_of(files: Mapping[str, str], title: str = "Train") -> Plan:
    """The real review of a pull request that adds `files`."""
    changed = tuple(
        ChangedFile(
            path=path,
            status="added",
            patch=f"@@ -0,0 +1,{text.count(chr(10))} @@\n" + "".join(f"+{line}\n" for line in text.split("\n")[:-1]),
        )
        for path, text in files.items()
    )
    snapshot = PullSnapshot(
        repo_id=REF.repo_id,
        full_name="acme/training",
        number=REF.number,
        author="dana",
        title=title,
        is_draft=False,
        is_open=True,
        base_ref="main",
        base_sha="a" * 40,
        head_sha=SHA,
        merge_base_sha="a" * 40,
        changed_files=changed,
    )
    head = MemoryTree({path: text.encode("utf-8", "surrogatepass") for path, text in files.items()})
    return review(ReviewInput(snapshot=snapshot, head=head, base=MemoryTree({})))


def document_of(files: Mapping[str, str] = FILES, title: str = "Train") -> dict[str, Any]:
    """Its report."""
    details = plan_of(files, title).details
    assert details is not None
    return dict(details)


def page_settings_of(**more: Any) -> PageSettings:
    """Everything but a login."""
    given = {"public_url": PUBLIC, "link_secrets": (Secret(WEBHOOK_SECRET),), "operator_token": Secret(OPERATOR)}
    return PageSettings(**{**given, **more})


@dataclass(frozen=True, slots=True)
class Site:
    """The pages and their store."""

    http: FlaskClient
    shelf: Shelf
    signer: Signer
    keys: Keys
    client: redis.Redis

    def put(self, document: Mapping[str, Any], ref: ReportRef = REF) -> str:
        """Keep a report; the path of its link."""
        assert self.shelf.put(ref, document, time.time())
        return self.link(ref)

    def link(self, ref: ReportRef = REF, at: float | None = None) -> str:
        """A link that was signed at a time."""
        return f"/r/{self.signer.sign(ref, time.time() if at is None else at)}"


def build_site(client: redis.Redis, redis_url: str, settings: PageSettings) -> Site:
    """The application, with Flask's own client."""
    web = WebSettings(redis_url=redis_url, webhook_secrets=(Secret(WEBHOOK_SECRET),), app_id=7, namespace="pages")
    app = create_app(web, settings)
    keys = Keys("pages")
    return Site(app.test_client(), Shelf(client, keys), Signer(settings.link_secrets, settings.link_days), keys, client)


class Elements(HTMLParser):
    """What a browser would make of a page: elements with their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        """The attributes of every element of a kind."""
        return (attributes for name, attributes in self.found if name == tag)


def acting(page: str) -> list[str]:
    """Whatever on a page could act, load or leave: there should be nothing but links of ours."""
    faults = []
    for tag, attributes in Elements(page).found:
        if tag in {"script", "iframe", "object", "embed", "base", "img", "style", "audio", "video", "link"}:
            is_ours = tag == "link" and str(attributes.get("href", "")).startswith(("/assets/", "data:,"))
            faults += [] if is_ours else [f"<{tag}> {attributes}"]
        faults += [f"{tag} {name}" for name in attributes if name.startswith("on") or name in {"style", "srcdoc"}]
        for name in ("href", "src", "action", "xlink:href", "formaction"):
            target = attributes.get(name)
            if target is not None and not target.startswith(("/", "#", "?", "https://github.com/", "data:,")):
                faults.append(f"{tag} {name}={target}")
    return faults
