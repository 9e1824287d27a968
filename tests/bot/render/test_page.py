"""Pages of rules at a terminal."""

from __future__ import annotations

import pytest

from analyzer.api import RuleFacts
from bot.catalogue import all_rules
from bot.render.page import plain

PAGE = """# PF101 graph-retention

A ``loss`` that **stays**; see [the page](PF102.md).

## Example
```python
total += loss  # `kept`

x = a ** b
```

## Use instead
`x`
"""


def test_marks_become_layout() -> None:
    assert plain(PAGE) == (
        "PF101 graph-retention\n=====================\n\nA `loss` that stays; see the page.\n\n"
        "Example (reported)\n------------------\n\n    total += loss  # `kept`\n\n    x = a ** b\n\n"
        "Use instead (quiet)\n-------------------\n`x`\n"
    )


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_page_is_complete_and_free_of_marks(rule: RuleFacts) -> None:
    text = plain(rule.page)
    prose = [line for line in text.split("\n") if not line.startswith("    ")]
    assert not [line for line in prose if line.startswith(("#", "```", "::")) or "``" in line or "](" in line]
    for heading in ("Why it matters", "Example (reported)", "Use instead (quiet)", "When it stays quiet", "Fix safety"):
        assert heading in prose
    assert any(line.startswith("    ") for line in text.split("\n"))
