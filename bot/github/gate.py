"""The check runs that a submission gate asks for, from GitHub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.core.gate import Check, check_of
from bot.core.plan import MEMORY_CHECK
from bot.github.errors import Invalid, NotFound
from bot.github.retry import Api


def memory_check(api: Api, repository: str, sha: str, app_id: int, repo_id: int | None = None) -> Check:
    """``preflight/memory`` of a commit. `repository` is a name or an id. Raises `Refused` and `Unavailable`.

    A repository that the credential does not reach is refused, not absent; a commit that GitHub does not know is.
    """
    place = f"/repositories/{repository}" if repository.isdecimal() else f"/repos/{repository}"
    # GitHub's filter knows an app by its numeric id; what comes back is compared again in `check_of`.
    parameters = {"check_name": MEMORY_CHECK, "app_id": app_id, "filter": "latest", "per_page": 100}
    try:
        answer: Mapping[str, Any] = api.get(f"{place}/commits/{sha}/check-runs", parameters)
    except Invalid:
        return Check(state="absent", title="GitHub does not know the commit")
    except NotFound:
        api.get(place)  # raises where it is the repository that is not there, or not ours to see
        return Check(state="absent", title="GitHub does not know the commit")
    runs = answer.get("check_runs") or []
    return check_of(runs, sha=sha, app_id=app_id, repo_id=repo_id)
