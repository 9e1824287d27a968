"""The child that estimates a run somebody changed on a page. Started as ``python -I -m bot.workshop.what_if``.

The run comes from a pull request's files: it is estimated where nothing it says can hurt the web process.
"""

from __future__ import annotations

from typing import Any

from bot.isolate.child import answers, confine, requests


def estimate(document: Any) -> dict[str, Any]:
    """``{"estimate": …}`` or, for a value that no run can have, ``{"error": …}``."""
    from analyzer.errors import InputError
    from estimator.api import what_if

    try:
        return {"estimate": what_if(document["run"], document["edit"]).to_json()}
    except InputError as error:
        return {"error": str(error)}


def main() -> None:
    """Serve one document."""
    say, given = answers(), requests()
    request = next(given)
    confine(**request["limits"])
    say({"result": estimate(request["document"])})


if __name__ == "__main__":
    main()
