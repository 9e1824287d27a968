"""Comments as HTML, the way GitHub shows them: no raw HTML, but ``<details>`` folds and comments stay hidden."""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup, escape

_FOLD = re.compile(r"</?details(?: open)?>|</?summary>")
_SMALL = re.compile(r"</?sub>")
_FOLD_LINE = re.compile(
    r"\s*(?:</?details(?: open)?>|<summary>.*?</summary>)(?:\s*(?:</?details(?: open)?>|<summary>.*?</summary>))*\s*"
)
_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)


def _fold(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A line of nothing but ``<details>`` and ``<summary>`` tags: the only HTML let through."""
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if state.is_code_block(start) or not _FOLD_LINE.fullmatch(line):
        return False
    if silent:
        return True
    token = state.push("fold", "", 0)
    token.content = line
    token.map = [start, start + 1]
    state.line = start + 1
    return True


def _render_fold(_self: Any, tokens: list[Token], index: int, _options: Any, _env: Any) -> str:
    line = tokens[index].content
    parts, last = [], 0
    for tag in _FOLD.finditer(line):
        parts += [_MARKDOWN.renderInline(line[last : tag.start()]), tag[0]]
        last = tag.end()
    return "".join([*parts, _MARKDOWN.renderInline(line[last:])]) + "\n"


def _small(state: StateInline, silent: bool) -> bool:
    """``<sub>`` and ``</sub>``: GitHub renders them, and bots like small print."""
    tag = _SMALL.match(state.src, state.pos)
    if tag is None:
        return False
    if not silent:
        state.push("small", "", 0).content = tag[0]
    state.pos = tag.end()
    return True


def _render_small(_self: Any, tokens: list[Token], index: int, _options: Any, _env: Any) -> str:
    return tokens[index].content


def _render_fence(_self: Any, tokens: list[Token], index: int, _options: Any, env: Any) -> str:
    token = tokens[index]
    if token.info.split()[:1] == ["suggestion"]:
        return _suggestion(token.content, (env or {}).get("old", []))
    return f'<pre class="code"><code>{escape(token.content)}</code></pre>\n'


def _suggestion(content: str, old: list[str]) -> str:
    removed = "".join(f'<span class="row del"><b>-</b>{escape(line)}\n</span>' for line in old)
    added = "".join(f'<span class="row add"><b>+</b>{escape(line)}\n</span>' for line in content.split("\n")[:-1])
    return f'<figure class="suggestion"><figcaption>Suggested change</figcaption><pre>{removed}{added}</pre></figure>\n'


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.block.ruler.before("paragraph", "fold", _fold, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.inline.ruler.before("text", "small", _small)
    parser.add_render_rule("fold", _render_fold)
    parser.add_render_rule("small", _render_small)
    parser.add_render_rule("fence", _render_fence)
    return parser


_MARKDOWN = _parser()


def to_html(text: str | None, old: list[str] | None = None) -> Markup:
    """Rendered Markdown. `old` are the lines that a suggestion in it would replace."""
    visible = _outside_code(text or "")
    return Markup(_MARKDOWN.render(visible, {"old": old or []}))  # noqa: S704 - markdown-it escapes, html is off


def _outside_code(text: str) -> str:
    """Hidden comments taken out, except inside fences, where they are content."""
    parts = re.split(
        r"(^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\2[`~]*\s*?$|\Z))", text, flags=re.DOTALL | re.MULTILINE
    )
    # re.split yields text, whole fence, its marker, text, …
    kept = []
    for index, part in enumerate(parts):
        if index % 3 == 0:
            kept.append(_HIDDEN.sub("", part))
        elif index % 3 == 1:
            kept.append(part)
    return "".join(kept)
