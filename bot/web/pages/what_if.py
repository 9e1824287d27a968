"""A what-if: from the query of a page to a changed run, estimated in a child with limits, remembered for an hour."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from werkzeug.datastructures import MultiDict

from bot.isolate.parent import Child, Died, python_module
from bot.render.pages.report import FIELDS, WhatIf
from bot.web.pages.context import Context

_COMMAND = python_module("bot.workshop.what_if")
_SECONDS = 12.0
_MEMORY = 2 << 30
_KEEP = 3_600
_MAX_VALUE = 60


def asked(query: MultiDict[str, str], launches: list[Mapping[str, Any]]) -> WhatIf | None:
    """What the query asks for; None where it asks nothing, or nothing that the report has."""
    index = _index(query.get("launch", ""), len(launches))
    if index is None or not launches[index].get("run"):
        return None
    suggestions = launches[index]["estimate"]["suggestions"]
    chosen = [found for text in query.getlist("change") if (found := _index(text, len(suggestions))) is not None]
    fields = {item.name: query.get(item.name, "").strip()[:_MAX_VALUE] for item in FIELDS}
    fields = {name: value for name, value in fields.items() if value}
    edit: dict[str, Any] = {}
    for number in sorted(set(chosen)):
        edit.update(suggestions[number].get("edit", {}))
    edit.update({name: _value(name, value) for name, value in fields.items()})
    if "gpu" in fields:
        edit["gpu_memory"] = None
    return WhatIf(launch=index, chosen=frozenset(chosen), fields=fields, edit=edit) if edit else None


def _index(text: str, length: int) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 and int(text) < length else None


def _value(name: str, text: str) -> Any:
    """As a run-config document holds it; what is no number is left to the estimator, which names the field."""
    if name == "gpu":
        return [part.strip() for part in text.split(",") if part.strip()][:4]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else text


def estimate(context: Context, run: Mapping[str, Any], edit: Mapping[str, Any]) -> dict[str, Any]:
    """``{"estimate": …}`` or ``{"error": …}``. Raises `bot.web.pages.context.Busy`."""
    document = {"run": dict(run), "edit": dict(edit)}
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    key = context.keys.what_if(digest)
    known: Any = context.client.get(key)
    if known:
        return dict(json.loads(known))
    with context.slow():
        result = _in_child(document)
    if "estimate" in result or not result.get("is_passing"):
        context.client.set(key, json.dumps(result), ex=_KEEP)
    return result


def _in_child(document: Mapping[str, Any]) -> dict[str, Any]:
    limits = {"memory_bytes": _MEMORY, "cpu_seconds": int(_SECONDS)}
    child = Child(_COMMAND)
    try:
        child.send({"document": document, "limits": limits})
        return dict(child.receive(time.monotonic() + _SECONDS)["result"])
    except Died as death:
        return {"error": f"the estimate {death}", "is_passing": True}
    finally:
        child.close()
