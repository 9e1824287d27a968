"""Findings hidden by a comment. What is hidden is counted, with the reason that was given.

    loss_sum += loss          # preflight: ignore[PF101] freed two lines below
    loss_sum += loss          # noqa: PF101
    # preflight: ignore-file[PF101, TG014] generated

In brackets stand codes, aliases or names of rules. A comment counts on every line of the finding's statement, or alone
on the line above it. Strings never count: comments are read from tokens. PF501 blocks a merge and answers to policy,
not to comments. A comment that hides nothing is said to be idle: it would hide the next defect on its line.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from analyzer.findings import Excuse, Finding, Suppressed
from analyzer.nesting import decode

if TYPE_CHECKING:
    from analyzer.rules.base import Rule

NEVER = frozenset({"PF501"})
_HINT = re.compile(rb"(?i)preflight:\s*ignore|noqa[^\n]*\b(?:PF|TG)\d")
_OURS = re.compile(
    r"#\s*preflight:\s*ignore(?P<file>-file)?(?![\w-])\s*(?:\[(?P<codes>[^\]]*)\])?\s*(?P<reason>[^#]*)", re.I
)
_UNREAD = re.compile(r"\[[^#]*|[\s(:=,-]*(?:PF|TG)\d+\b", re.I)
"""What is no reason: codes without brackets, or with one that is not closed. Who wrote them meant these alone."""
UNREAD = "ignore:"
"""How the excuse of a comment begins whose codes cannot be read; the rest is what stands in their place."""
_LONGEST = 60
_WORD = re.compile(r"[A-Za-z][\w-]*")
_OWN_CODE = re.compile(r"(?:PF|TG)\d+")
_NOQA = re.compile(r"#\s*noqa\b(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?(?P<reason>[^#]*)", re.I)
_LAYOUT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """One suppression. `codes` are words in capitals, none means every rule; `line` is where it stands. `unread`: what
    stands in the place of codes and cannot be read as such; the comment hides nothing."""

    source: Literal["comment", "noqa", "file"]
    codes: frozenset[str]
    reason: str
    line: int
    unread: str = ""


@dataclass(frozen=True, slots=True)
class _Comments:
    behind: dict[int, list[Comment]]  # first line of a statement -> comments on any of its lines
    alone: dict[int, list[Comment]]  # line -> comments with nothing else on that line
    whole_file: list[Comment]
    statements: dict[int, tuple[int, int]]  # physical line -> first and last line of its statement


def apply(path: str, source: bytes, findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
    """The findings that stay, and a record of each one that a comment in `source` hides."""
    if not findings or not _may_excuse(source):
        return tuple(findings), ()
    comments = _read(source)
    kept: list[Finding] = []
    hidden: list[Suppressed] = []
    for finding in findings:
        comment = None if finding.rule in NEVER else _covering(finding, comments)
        if comment is None:
            kept.append(finding)
        else:
            hidden.append(Suppressed(finding.rule, path, finding.line, comment.source, comment.reason))
    return tuple(kept), tuple(hidden)


def excuses(
    path: str, source: bytes, findings: Sequence[Finding], rules: Collection[type[Rule]] | None
) -> tuple[list[Excuse], list[Excuse]]:
    """What the comments of a file excuse and hide nothing by, and what they hide something by.

    `findings` are those of every confidence; `rules` are those that ran, where not all did: a comment about another
    one may have its use. ``noqa`` is judged by our own codes only.
    """
    if not _may_excuse(source) or not _HINT.search(source):
        return [], []
    comments = _read(source)
    used: set[tuple[Comment, str]] = set()
    for finding in findings:
        names = _names(finding.rule) if finding.rule not in NEVER else frozenset()
        for comment in _candidates(finding, comments) if names else ():
            if comment.unread:
                continue
            used |= {(comment, word) for word in comment.codes & names or ({"*"} if not comment.codes else ())}
    ran = None if rules is None else frozenset().union(*(_names(rule.code) for rule in rules))
    idle = []
    for comment in _all(comments):
        if comment.unread:
            idle.append((comment, comment.unread))
            continue
        words = comment.codes or ({"*"} if comment.source != "noqa" else ())
        mine = (word for word in words if comment.source != "noqa" or _OWN_CODE.fullmatch(word))
        idle += [word_at for word in mine if (word_at := (comment, word)) not in used and (ran is None or word in ran)]
    return sorted(_excuse(path, *item) for item in idle), sorted(_excuse(path, *item) for item in used)


def _may_excuse(source: bytes) -> bool:
    """Most files say no, and a search for plain bytes is ten times faster than for a pattern."""
    lowered = source.lower()
    return b"noqa" in lowered or b"preflight" in lowered


def _excuse(path: str, comment: Comment, word: str) -> Excuse:
    is_written = comment.unread or _OWN_CODE.fullmatch(word)
    return Excuse(path, comment.line, word if is_written else word.lower())


def _all(comments: _Comments) -> Iterable[Comment]:
    for group in (*comments.behind.values(), *comments.alone.values(), comments.whole_file):
        yield from group


def _covering(finding: Finding, comments: _Comments) -> Comment | None:
    names = _names(finding.rule)
    for comment in _candidates(finding, comments):
        if not comment.unread and (not comment.codes or comment.codes & names):
            return comment
    return None


def _candidates(finding: Finding, comments: _Comments) -> list[Comment]:
    """The comments that stand where they could hide a finding, the nearest first."""
    first, _ = comments.statements.get(finding.line, (finding.line, finding.line))
    return [*comments.behind.get(first, ()), *comments.alone.get(first - 1, ()), *comments.whole_file]


def _names(code: str) -> frozenset[str]:
    """Every word that means a rule, in capitals."""
    from analyzer.catalogue import find

    rule = find(code)
    return frozenset({code.upper(), *((rule.name.upper(), (rule.alias or code).upper()) if rule else ())})


def _read(source: bytes) -> _Comments:
    found = _Comments({}, {}, [], {})
    first: int | None = None  # line on which the current statement began
    waiting: list[Comment] = []
    for token in _tokens(source):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            comments = list(_parse(token.string, line))
            found.whole_file.extend(comment for comment in comments if comment.source == "file")
            near = [comment for comment in comments if comment.source != "file"]
            if first is None:
                found.alone.setdefault(line, []).extend(near)
            else:
                waiting += near
        elif token.type == tokenize.NEWLINE:
            start = first or line
            found.statements.update(dict.fromkeys(range(start, line + 1), (start, line)))
            found.behind.setdefault(start, []).extend(waiting)
            first, waiting = None, []
        elif token.type not in _LAYOUT:
            first = first or line
    return found


def _parse(text: str, line: int) -> Iterable[Comment]:
    for match in _OURS.finditer(text):
        codes = frozenset(_WORD.findall((match["codes"] or "").upper()))
        if match["codes"] is not None and not codes:
            continue  # `ignore[]` or a name we do not know hides nothing
        unread = _UNREAD.match(match["reason"]) if match["codes"] is None else None
        yield Comment(
            source="file" if match["file"] else "comment",
            codes=codes,
            reason=match["reason"].strip(),
            line=line,
            unread=f"{UNREAD} {unread[0].strip()}"[:_LONGEST] if unread is not None else "",
        )
    for match in _NOQA.finditer(text):
        codes = frozenset(re.findall(r"[A-Z]+[0-9]+", (match["codes"] or "").upper()))
        yield Comment(source="noqa", codes=codes, reason=match["reason"].strip(" -—:"), line=line)


def _tokens(source: bytes) -> Iterable[tokenize.TokenInfo]:
    """The tokens up to the first thing that `tokenize` cannot read: comments above it still count."""
    try:
        yield from tokenize.generate_tokens(io.StringIO(decode(source)).readline)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return
