"""What people decided on a pull request, in words: in the summary, in the checks, and on a comment that is closed."""

from __future__ import annotations

from collections.abc import Sequence

from bot.core.ledger import Ledger, Override, Posted
from bot.render.markdown import code, count, escape

MAX_LISTED = 50


def decisions_list(ledger: Ledger, head_sha: str) -> str:
    """Every decision with who made it and why; empty where there is none."""
    lines = [
        f"{code(item.rule)} at {code(f'{item.path}:{item.line}')} dismissed by {code(item.who)}: {_reason(item.reason)}"
        for item in ledger.dismissals
    ]
    lines += [f"{code(item.rule)} ignored by {code(item.who)}: {_reason(item.reason)}" for item in ledger.ignores]
    lines += [_override(item, head_sha) for item in ledger.overrides]
    if not lines:
        return ""
    rest = f"\n- … and {len(lines) - MAX_LISTED} more" if len(lines) > MAX_LISTED else ""
    return "**Decided on this pull request**\n\n" + "\n".join(f"- {line}" for line in lines[-MAX_LISTED:]) + rest


def _override(item: Override, head_sha: str) -> str:
    over = "" if item.sha == head_sha else " (an earlier commit: it does not hold for this one)"
    return f"{code(f'preflight/{item.check}')} overridden for `{item.sha[:12]}` by {code(item.who)}{over}: " + _reason(
        item.reason
    )


def _reason(text: str) -> str:
    return escape(text) if text.strip() else "no reason given"


def override_title(override: Override, title: str) -> str:
    """The title of a check that was overridden."""
    return f"Overridden by {override.who}: {title}"


def override_text(override: Override) -> str:
    """Who let the commit pass and why: part of the check's summary, so that it is where the check is."""
    return (
        f"**Overridden** by {code(override.who)} at {code(override.when)} for exactly the commit "
        f"{code(override.sha)}: {_reason(override.reason)}\n\n"
        "A new commit needs a new override. What Preflight found stands below."
    )


def distrust_text(why: str) -> str:
    """That an earlier record was not believed."""
    return (
        f"> **Note:** {escape(why)}: it was not believed. What was dismissed, ignored or overridden before has to be "
        "decided again."
    )


def closing_note(row: Posted, ledger: Ledger) -> str:
    """Why a comment is closed."""
    if row.status == "fixed":
        return f"**Fixed** in `{row.head_sha[:12]}`."
    if dismissal := ledger.dismissal(row.fingerprint):
        return f"**Dismissed** by {code(dismissal.who)}: {_reason(dismissal.reason)}"
    if ignored := ledger.ignored(row.rule):
        return f"**Ignored** on this pull request by {code(ignored.who)}: {_reason(ignored.reason)}"
    return f"**Excused** by a comment in the code at `{row.head_sha[:12]}`."


# --- answers to commands --------------------------------------------------------------------------------------------

_AGAIN = "The checks are computed again."


def dismissed_text(item: Posted) -> str:
    """A dismissal that is kept."""
    return f"{code(item.rule)} at {code(f'{item.path}:{item.line}')} is dismissed, on later pushes too. {_AGAIN}"


def ignored_text(rule: str, num: int) -> str:
    """A rule that is silent from now on."""
    present = f" ({count(num, 'finding')} now)" if num else ""
    end = code(f"/preflight unignore {rule}")
    return f"{code(rule)} is ignored on this pull request{present}. {_AGAIN} {end} ends it."


def unignored_text(rule: str, *, had: bool, num: int) -> str:
    """A rule that is heard again."""
    what = [*(["the ignore"] if had else []), *([count(num, "dismissal")] if num else [])]
    return f"{code(rule)}: {' and '.join(what)} taken back. {_AGAIN}"


def not_silenced_text(rule: str, path: str | None) -> str:
    """Nothing was taken back."""
    where = f" in {code(path)}" if path else ""
    return f"{code(rule)}: nothing silences it{where}."


def overridden_text(override: Override) -> str:
    """A commit that passes."""
    return (
        f"{code(f'preflight/{override.check}')} lets {code(override.sha)} pass, and no other commit: "
        f"{_reason(override.reason)}\n\n{_AGAIN}"
    )


def which_one(found: Sequence[Posted]) -> str:
    """Several findings are meant: the commands to choose from."""
    lines = [f"- {code(f'/preflight dismiss {item.rule}@{item.path}:{item.line} …')}" for item in found[:MAX_LISTED]]
    rule = found[0].rule
    return (
        f"{count(len(found), 'finding')} of {code(rule)} could be meant; name one:\n\n"
        + "\n".join(lines)
        + f"\n\n{code(f'/preflight ignore {rule} …')} silences all of them."
    )


def nothing_to_dismiss(rule: str, path: str | None, ledger: Ledger) -> str:
    """Plain text: what was named is not among what was said."""
    where = f" in {path}" if path else ""
    said = sorted({item.rule for item in ledger.posted if item.status == "open" and item.rule})
    others = f" (open here: {', '.join(said)})" if said else ""
    return f"there is no open finding of {rule}{where}{others}"
