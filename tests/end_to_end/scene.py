"""One repository with its pull request on the running stack."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.demo import sample
from bot.demo.hub import Json
from bot.demo.stack import Stack

CHECKS = ("preflight/code", "preflight/memory")
_numbers = itertools.count(1)
_CODE = re.compile(r"\bPF\d{3}\b")


@dataclass
class Scene:
    """`work` is the author's clone; `number` the pull request's."""

    stack: Stack
    work: Path
    name: str
    installation: int
    number: int = 0

    @classmethod
    def build(cls, stack: Stack, tmp: Path) -> Scene:
        """The sample's repository under a name of its own, no pull request yet."""
        work = sample.build(tmp / "work")
        name = f"team{next(_numbers)}/trainer"
        installation = stack.add_repository(name, work, roles={"dana": "write", "wanda": "write", "olga": "read"})
        return cls(stack, work, name, installation)

    def open(self, **more: Any) -> Scene:
        """Open the pull request: its webhook goes out."""
        body = {"title": sample.TITLE, "base": "main", "head": "classifier", "user": "dana"} | more
        self.number = self.stack.hub.post(f"/repos/{self.name}/pulls", **body)["number"]
        return self

    def seen(self) -> Json:
        """What a person sees now."""
        return self.stack.hub.pull(self.name, self.number)

    def concluded(self) -> Json:
        """What a person sees when both checks on the head are concluded."""
        try:
            return self.stack.hub.until_concluded(self.name, self.number, CHECKS, 90)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.stack.diagnosis()}") from error

    def push(self, files: dict[str, str], message: str = "Push") -> str:
        """Commit and push to the branch of the pull request."""
        sample.commit(self.work, message, files)
        return self.stack.hub.push(self.name, "classifier", self.work, "classifier", "dana")

    def fault(self, **fault: Any) -> None:
        """Order a fault for this repository; `path` is a suffix of the API path."""
        path = f"^/repos/{self.name}{fault.pop('path')}"
        self.stack.hub.ask("POST", "/faults", {"path": path, **fault})

    def state(self, action: str) -> None:
        """closed, reopened, converted_to_draft, ready_for_review."""
        self.stack.hub.post(f"/repos/{self.name}/pulls/{self.number}/state", action=action, user="dana")

    def comment(self, body: str, user: str) -> int:
        """Write into the conversation; returns the comment's id."""
        path = f"/repos/{self.name}/pulls/{self.number}/comments"
        return int(self.stack.hub.post(path, body=body, user=user)["id"])

    def in_thread(self, comment_id: int, body: str, user: str) -> int:
        """Answer below a comment on a line."""
        path = f"/repos/{self.name}/pulls/{self.number}/threads"
        return int(self.stack.hub.post(path, in_reply_to=comment_id, body=body, user=user)["id"])

    def press(self, check: str, identifier: str, user: str) -> int:
        """Press one of our buttons on the newest run of a check; the run's id."""
        run_id = int(runs(self.seen())[check]["id"])
        self.stack.hub.post(f"/check-runs/{run_id}/press", identifier=identifier, user=user)
        return run_id

    def grant(self, **permissions: str) -> None:
        """The owner accepts more permissions."""
        self.stack.hub.post(f"/installations/{self.installation}/permissions", permissions=permissions)

    def answers(self, key: object) -> list[str]:
        """Our answers to one question, in the conversation and in threads."""
        seen = self.seen()
        marker = f"<!-- preflight:answer={key} -->"
        bodies = [str(item["body"]) for item in seen["conversation"] + seen["review_comments"]]
        return [body.partition("\n")[2] for body in bodies if body.startswith(marker)]

    def answer_to(self, key: object, seconds: float = 90) -> str:
        """Our one answer to a question."""
        try:
            found = self.stack.hub.until(lambda: self.answers(key), seconds, f"an answer to {key}")
        except Exception as error:
            raise AssertionError(f"{error}\n{self.stack.diagnosis()}") from error
        [only] = found
        return str(only)

    def asked(self, body: str, user: str = "dana") -> str:
        """The answer to a command in the conversation."""
        return self.answer_to(self.comment(body, user))

    def answer_after(self, comment_id: int) -> str:
        """The bot's first comment after another."""

        def answer() -> str | None:
            later = [item for item in self.seen()["conversation"] if item["id"] > comment_id]
            return next((str(item["body"]) for item in later if item["user"]["type"] == "Bot"), None)

        return str(self.stack.hub.until(answer, 60, "an answer"))


def findings(seen: Json) -> set[tuple[str, str, int]]:
    """(rule, path, line) of the review comments."""
    return {(_CODE.findall(item["body"])[0], item["path"], item["original_line"]) for item in seen["review_comments"]}


def runs(seen: Json) -> dict[str, Json]:
    """The newest run of each name."""
    return {run["name"]: run for run in seen["check_runs"]}
