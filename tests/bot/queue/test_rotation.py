"""Both secrets rotated while everything runs: no process is restarted and no delivery is refused."""

from __future__ import annotations

from pathlib import Path

from tests.bot.queue.stack import Stack
from tests.localhub.world import new_key
from tests.support import WEBHOOK_SECRET, wait_for

NEW_SECRET = "the-next-secret-of-the-tests-0123"


def test_secrets_in_files_rotate_under_load(stack: Stack, tmp_path: Path) -> None:
    names = ("PREFLIGHT_PRIVATE_KEY", "PREFLIGHT_WEBHOOK_SECRET")
    files = {name: tmp_path / name.lower() for name in (*names, *(f"{name}_PREVIOUS" for name in names))}
    for name in names:
        files[name].write_text(stack.environment.pop(name))
        files[f"{name}_PREVIOUS"].write_text("")
    stack.environment |= {f"{name}_FILE": str(file) for name, file in files.items()}
    stack.serve()
    stack.work_on()
    number = stack.open_pull()
    stack.concluded(number)

    app = next(iter(stack.hub.service.hub.rows.apps.values()))
    files["PREFLIGHT_WEBHOOK_SECRET_PREVIOUS"].write_text(WEBHOOK_SECRET)
    files["PREFLIGHT_WEBHOOK_SECRET"].write_text(NEW_SECRET)
    app.webhook_secret = NEW_SECRET  # saved in the app's settings
    old = files["PREFLIGHT_PRIVATE_KEY"].read_text()
    private, public = new_key()
    files["PREFLIGHT_PRIVATE_KEY_PREVIOUS"].write_text(old)
    files["PREFLIGHT_PRIVATE_KEY"].write_text(private)
    app.public_key = public  # generated, and the old one deleted at once
    stack.client.delete(*stack.client.keys("preflight:token:*"))

    stack.push("feature", {"notes.txt": "after the rotation\n"})
    stack.concluded(number)
    wait_for(lambda: not stack.client.zcard("preflight:reviews"), 30, "nothing is open")
    shown = stack.show(number)
    assert {run["conclusion"] for run in shown["check_runs"]} == {"neutral"}
    bodies = [comment["body"] for comment in shown["review_comments"]]
    assert len(bodies) == len(set(bodies)), "what the old key signed is still believed: nothing is said twice"
    refused = [one for one in stack.hub.service.hub.rows.deliveries.values() if one.status_code == 401]
    assert refused == []
