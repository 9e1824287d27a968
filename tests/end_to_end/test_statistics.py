"""From a merge to `preflight stats`: what was fixed, hidden, merged and reacted to, counted once, on the real stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.demo import sample
from bot.demo.stack import Stack
from bot.store import connect
from tests.end_to_end.scene import Scene, runs


@pytest.fixture
def scene(stack: Stack, tmp_path: Path) -> Scene:
    stack.hub.ask("DELETE", "/faults")
    return Scene.build(stack, tmp_path)


def counted(scene: Scene) -> dict[str, Any]:
    """`preflight stats` for the repository, by rule."""
    client = connect(scene.stack.redis_url)
    keys: Any = client.keys("preflight-demo-*:stats-repositories")
    client.close()
    if not keys:
        return {}
    environment = {
        "PATH": os.environ["PATH"],
        "REDIS_URL": scene.stack.redis_url,
        "PREFLIGHT_NAMESPACE": keys[0].split(b":")[0].decode(),
    }
    command = [sys.executable, "-I", "-m", "preflight", "stats", "--repo", scene.name, "--format", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
    return {row["name"]: row for row in rows}


def test_a_merged_pull_request_is_counted_once_by_what_people_did(scene: Scene) -> None:
    hub = scene.stack.hub
    seen = scene.open().concluded()
    comments = {item["body"].partition("**")[2].partition(" ")[0]: item["id"] for item in seen["review_comments"]}
    for user in ("dana", "olga"):
        hub.post(f"/comments/{comments['PF204']}/reactions", user=user, content="+1")
    hub.post(f"/comments/{comments['PF102']}/reactions", user="olga", content="-1")
    text = sample.CLASSIFY.replace("torch.softmax(model(images), dim=1)", "model(images)").replace(
        "total_loss += loss\n", "total_loss += loss  # preflight: ignore[PF101] short run\n"
    )
    scene.push({"speech/classify.py": text})
    details = runs(scene.concluded())["preflight/code"]["details_url"]
    hub.post(f"/repos/{scene.name}/pulls/{scene.number}/merge", user="dana")
    rows = hub.until(lambda: counted(scene), 60, "the pull request is counted")
    assert (rows["PF204"]["fixed"], rows["PF204"]["up"]) == (1, 2)
    assert (rows["PF201"]["kept"], rows["PF201"]["fixed"]) == (1, 0)
    assert (rows["PF101"]["findings"], rows["PF101"]["suppressed"], rows["PF101"]["kept"]) == (2, 1, 1)
    assert (rows["PF102"]["down"], rows["PF501"]["kept"]) == (1, 1)
    deliveries = hub.ask("GET", "/deliveries")
    closed = [one for one in deliveries if one["event"] == "pull_request" and one["action"] == "closed"][-1]
    hub.post(f"/deliveries/{closed['id']}/redeliver")
    page = requests.get(f"{details}/stats", timeout=20)
    assert page.status_code == 200
    assert "PF204" in page.text
    assert counted(scene) == rows
