"""The documents that are made from the code: what each file under ``docs/`` is to hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

from analyzer.api import RuleFacts
from bot.catalogue import all_rules
from bot.cli.main import command_names, parser_for
from bot.core.config_schema import config_schema
from bot.render.help import command_help
from estimator.schema import run_config_schema

_MADE = "<!-- Made by `make docs`: change {source} instead. -->"


def documents() -> Iterator[tuple[str, str]]:
    """Path below ``docs/`` and text of every generated document."""
    rules = all_rules()
    for rule in rules:
        source = "estimator/pf501.md" if rule.code == "PF501" else "the docstring of the rule"
        yield f"rules/{rule.code}.md", f"{_MADE.format(source=source)}\n\n{rule.page.strip()}\n"
    yield "rules/README.md", _table(rules)
    yield "cli.md", "\n".join(_command_line())
    yield "preflight.schema.json", json.dumps(config_schema(), indent=2) + "\n"
    yield "run-config.schema.json", json.dumps(run_config_schema(), indent=2) + "\n"


def _table(rules: tuple[RuleFacts, ...]) -> str:
    lines = [
        _MADE.format(source="the rules"),
        "",
        "# Rules",
        "",
        "`PF1xx` memory and autograd, `PF2xx` convergence, `PF3xx` data and distribution, `PF4xx` speed, `PF5xx`",
        "launch configs. Codes never change meaning. The alias is the code of torch-preflight.",
        "",
        "| code | name | alias | severity | what it finds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule in rules:
        cells = (f"[{rule.code}]({rule.code}.md)", rule.name, rule.alias or "", rule.severity.value, rule.summary)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _command_line() -> Iterator[str]:
    yield _MADE.format(source="the files of bot/cli")
    yield "\n# Command line\n"
    yield "Exit codes: 0 good, 1 findings at or above `--fail-on`, 2 usage or input error."
    for name in command_names():
        parser, module = parser_for(name.replace("_", "-"))
        if getattr(module, "HIDDEN", False):
            continue
        yield f"\n## preflight {name.replace('_', '-')}\n"
        yield (module.__doc__ or "").strip()
        yield f"\n```text\n{command_help(parser)}```"
    yield ""
