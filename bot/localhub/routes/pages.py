"""The pages a person opens: the list of pull requests, and one pull request with its review and checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flask import Blueprint, render_template

from bot.localhub.markdown import to_html
from bot.localhub.model import CheckRun, Pull, ReviewComment
from bot.localhub.patches import FileChange, PatchLine, patch_lines
from bot.localhub.payloads.comments import present_line
from bot.localhub.routes import hub

routes = Blueprint("pages", __name__)
MAX_SHOWN_LINES = 1500


@dataclass(slots=True)
class Row:
    """One line of the diff, and the comments that stand under it."""

    line: PatchLine
    comments: list[ReviewComment] = field(default_factory=list)


@dataclass(slots=True)
class FileView:
    """One file of the diff."""

    change: FileChange
    rows: list[Row]
    is_cut: bool


@routes.get("/")
def index() -> str:
    with hub().lock:
        found = [pull for repo in hub().rows.repositories.values() for pull in hub().pulls(repo)]
        return render_template("index.html", pulls=found)


@routes.get("/<owner>/<repo>/pull/<int:number>")
def show(owner: str, repo: str, number: int) -> str:
    with hub().lock:
        pull = hub().pull(hub().repository(owner, repo), number)
        comments = hub().comments_of(pull)
        placed = {item.id: present_line(item, item.line) for item in comments}
        return render_template(
            "pull.html",
            pull=pull,
            files=[_view(change, comments, placed) for change in hub().files(pull)],
            reviews=[one for one in hub().reviews_of(pull) if one.body and one.state != "PENDING"],
            outdated=[item for item in comments if placed[item.id] is None and item.subject_type == "line"],
            conversation=hub().conversation_of(pull),
            runs=_newest(hub().runs_on(pull.repo, pull.head_sha)),
            num_commits=len(hub().commits(pull)),
            markdown=to_html,
            replaced=_replaced,
            tone=_tone,
        )


def _newest(runs: Sequence[CheckRun]) -> list[CheckRun]:
    return sorted({run.name: run for run in runs}.values(), key=lambda run: run.name)


def _view(change: FileChange, comments: Sequence[ReviewComment], placed: dict[int, int | None]) -> FileView:
    lines = patch_lines(change.patch)
    rows = [Row(line) for line in lines[:MAX_SHOWN_LINES]]
    for row in rows:
        for item in comments:
            number = row.line.new if item.side == "RIGHT" else row.line.old
            if item.path == change.path and number is not None and placed[item.id] == number:
                row.comments.append(item)
    return FileView(change, rows, len(lines) > MAX_SHOWN_LINES)


def _replaced(comment: ReviewComment) -> list[str]:
    """The lines a suggestion in the comment would replace."""
    if comment.line is None:
        return []
    start = comment.start_line or comment.line
    lines = patch_lines(comment.diff_hunk)
    return [one.text for one in lines if one.new is not None and start <= one.new <= comment.line]


def _tone(run: CheckRun) -> str:
    """A word for the colour of a run."""
    if run.status != "completed":
        return "running"
    good = {"success": "good", "neutral": "calm", "skipped": "calm", "cancelled": "calm"}
    return good.get(run.conclusion or "", "bad")


def pull_page(pull: Pull) -> str:
    """The path of a pull request's page."""
    return f"/{pull.repo.full_name}/pull/{pull.number}"
