"""What the web process asks on behalf of a submission gate: the check of a commit, and whether a manifest may run.

Both always answer: what went wrong is part of the answer, because somebody waits for it with a job in hand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from bot.core.gate import check_to_json
from bot.errors import InputError, PreflightError, Unavailable
from bot.github.errors import Forbidden, Gone, Invalid, NotFound
from bot.queue.admission import judge
from bot.queue.ask import answer
from bot.queue.logbook import Logbook
from bot.queue.room import Room, open_room
from bot.workshop.parent import AnalysisDied

_log = logging.getLogger("preflight.jobs")
Question = dict[str, Any]


def look(question: Question, reply: str) -> None:
    """``preflight/memory`` of a commit: ``{installation_id, repo_id, sha}`` -> ``{check}``."""
    _answered("gate_look", question, reply, _look)


def admit(question: Question, reply: str) -> None:
    """A Kubernetes object: `bot.queue.admission.judge`."""
    _answered("gate_admit", question, reply, judge)


def _look(room: Room, question: Question) -> dict[str, Any]:
    if not room.settings.app_id.isdecimal():
        raise InputError("PREFLIGHT_APP_ID of the workers is not the app's numeric id")
    gateway = room.gateway(int(question["installation_id"]), int(question["repo_id"]), "")
    return {"check": check_to_json(gateway.memory_check(str(question["sha"]), int(room.settings.app_id)))}


def _answered(job: str, question: Question, reply: str, work: Callable[[Room, Question], dict[str, Any]]) -> None:
    room = open_room()
    with Logbook(job, repo=str(question.get("repo_id", ""))) as log:
        try:
            document = work(room, question)
            outcome = "done"
        except (NotFound, Forbidden, Gone, Invalid):
            document = {"error": "the installation does not reach this repository", "status": 404}
            outcome = "not reached"
        except (Unavailable, AnalysisDied) as error:
            document, outcome = {"error": str(error), "status": 503}, f"unavailable: {error}"
        except PreflightError as error:
            document, outcome = {"error": str(error), "status": 422}, f"refused: {error}"
        except Exception as error:  # noqa: BLE001  the boundary: somebody waits; the traceback is in the log
            _log.exception("%s failed", job)
            document = {"error": f"a bug in Preflight ({type(error).__name__})", "status": 500}
            outcome = "failed"
        log.note(outcome=outcome)
    answer(room.client, room.keys, reply, document)
