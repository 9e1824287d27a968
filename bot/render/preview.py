"""The preview of a changed configuration, for the check and the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.render.markdown import code, table

if TYPE_CHECKING:
    from bot.core.preview import Change, Preview

_MAX_ROWS = 30


def preview_text(preview: Preview, base_ref: str) -> str:
    """What would change once the pull request is merged."""
    where = ", ".join(map(code, preview.paths))
    acts = f"changes how Preflight judges, once merged into {code(base_ref)}. Until then it does not act."
    parts = [f"**Configuration preview**: {where} {acts}"]
    parts += [_part("setting", preview.settings), _part("check of this pull request", preview.checks)]
    parts += [_part("finding of this pull request", preview.findings), _part("launch config", preview.launches)]
    if not preview.has_effect:
        parts.append("This pull request would be judged as it is now.")
    return "\n\n".join(part for part in parts if part)


def _part(what: str, changes: Sequence[Change]) -> str:
    if not changes:
        return ""
    rows = [(code(item.name), _value(item.now), _value(item.then)) for item in changes[:_MAX_ROWS]]
    rest = f"\n\n… and {len(changes) - _MAX_ROWS} more" if len(changes) > _MAX_ROWS else ""
    return table((what, "now", "after the merge"), rows) + rest


def _value(text: str) -> str:
    return code(text) if text else "–"
