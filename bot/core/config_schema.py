"""The JSON Schema of the configuration, for editors and CI: `docs/preflight.schema.json` and `preflight config schema`.

Made from the same constants that `bot.core.config` reads with; a property test holds it to what the loader accepts.
"""

from __future__ import annotations

from typing import Any

from analyzer.findings import Confidence, Severity
from bot import catalogue
from bot.core.config import MAX_INLINE, MAX_PATH_RULES, MODES, ON_FAILURE, Config
from bot.core.globs import MAX_PATTERN

Schema = dict[str, Any]
_TEXT = ["string", "number", "boolean"]
"""What YAML takes for a word: `targets: {desk: 4090}` means the name."""
_FAMILIES = ("PF1", "PF2", "PF3", "PF4", "PF5")


def config_schema() -> Schema:
    """JSON Schema draft 2020-12 of `.github/preflight.yml`, and of ``[tool.preflight]`` as a JSON document."""
    plain = Config()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Preflight configuration",
        "description": ".github/preflight.yml, or [tool.preflight] in pyproject.toml; read from the base branch",
        "$defs": _definitions(),
        **_object(
            {
                "mode": _mode(plain.code, plain.memory),
                "rules": _rules(with_select=True),
                "min_confidence": {
                    "enum": [item.value for item in Confidence],
                    "default": plain.min_confidence.value,
                    "description": "findings less certain than this are folded away",
                },
                "comments": _object(
                    {
                        "max_inline": {
                            "type": "integer",
                            "minimum": 0,
                            "maximum": MAX_INLINE,
                            "default": plain.max_inline,
                            "description": "comments on lines in one review, the most severe first",
                        },
                        "min_severity": {
                            "enum": [item.value for item in Severity],
                            "default": plain.min_inline.value,
                            "description": "what is below this is never a comment on lines: an annotation and a row",
                        },
                    },
                    "how much is said",
                ),
                "targets": {
                    "type": "object",
                    "additionalProperties": {"type": _TEXT},
                    "description": "partition, constraint, pool or runner label -> GPU or instance; * for any other",
                },
                "default_targets": _words("GPUs of launch configs that name no GPU, pool or partition"),
                "launch": _globs("only these launch configs (default: all that are recognised)"),
                "exclude": _globs("files that are not reviewed"),
                "paths": _paths(),
                "baseline": {
                    "type": _TEXT,
                    "pattern": r"^(?!/)(?!(.*/)?\.\.(/|$))[^\u0000]*$",
                    "description": "a file of known findings, inside the repository",
                },
                "on_failure": {
                    "enum": list(ON_FAILURE),
                    "default": plain.on_failure,
                    "description": "what a failure of Preflight itself does to the checks: fail open or closed",
                },
            },
            "",
        ),
    }


def _object(properties: Schema, description: str) -> Schema:
    said = {"description": description} if description else {}
    return {"type": "object", **said, "additionalProperties": False, "properties": properties}


def _words(description: str) -> Schema:
    return {
        "anyOf": [{"type": _TEXT}, {"type": "array", "items": {"type": _TEXT}}],
        "description": description,
    }


def _globs(description: str) -> Schema:
    glob = {"$ref": "#/$defs/glob"}
    return {"anyOf": [glob, {"type": "array", "items": glob}], "description": description}


def _mode(code: str | None = None, memory: str | None = None) -> Schema:
    def one(default: str | None, what: str) -> Schema:
        said = {"default": default} if default else {}
        return {"enum": list(MODES), **said, "description": what}

    checks = {
        "code": one(code, "what an error in the code does to preflight/code"),
        "memory": one(memory, "what a job that cannot fit does to preflight/memory"),
    }
    return _object(checks, "what a bad result does to a check; only block fails it")


def _rules(*, with_select: bool) -> Schema:
    codes = {"anyOf": [{"$ref": "#/$defs/rules"}, {"type": "array", "items": {"$ref": "#/$defs/rules"}}]}
    select = {"select": {**codes, "description": "only these rules (default: all)"}} if with_select else {}
    return _object(
        {
            **select,
            "ignore": {**codes, "description": "rules that are not reported"},
            "severity": {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/rule"},
                "additionalProperties": {"enum": [item.value for item in Severity]},
                "description": "another severity for a rule",
            },
        },
        "which rules run, and how severe they are",
    )


def _paths() -> Schema:
    entry = _object(
        {
            "match": _globs("the files and launch configs that this entry is about"),
            "mode": _mode(),
            "rules": _rules(with_select=False),
        },
        "what holds for some paths",
    )
    return {
        "type": "array",
        "maxItems": MAX_PATH_RULES,
        "items": {**entry, "required": ["match"]},
        "description": "exceptions by path; of several entries that match, the last one that says something holds",
    }


def _definitions() -> Schema:
    names = sorted({name for rule in catalogue.all_rules() for name in (rule.code, rule.name, rule.alias) if name})
    return {
        "rule": {"enum": names, "description": "the code, name or alias of a rule"},
        "rules": {
            "anyOf": [
                {"enum": [*names, *_FAMILIES]},
                {"type": "string", "pattern": ","},  # several, separated by commas: the loader looks at each
            ]
        },
        "glob": {
            "type": _TEXT,
            "minLength": 1,
            "maxLength": MAX_PATTERN,
            "pattern": "^[^!]",
            "description": "as in .gitignore, without negation",
        },
    }
