"""The JSON schema of a run config, made from the vocabulary: ``python -m estimator.schema`` prints it."""

from __future__ import annotations

import json
import sys
from typing import Any

from estimator.vocabulary import WORDS, Word


def run_config_schema() -> dict[str, Any]:
    """Canonical names and spellings. Documents may also use the aliases named in each description."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Preflight run config",
        "description": "What runs, how, and on what. A field that is absent has its library's default; null means that "
        "it is not known. Fields that are not listed here are accepted and named in the answer's `unknowns`.",
        "type": "object",
        "properties": {word.name: _property(word) for word in WORDS},
        "additionalProperties": True,
    }


def _property(word: Word) -> dict[str, Any]:
    also = f" Also read as: {', '.join(word.aliases)}." if word.aliases else ""
    text = word.help[0].upper() + word.help[1:]
    return {**word.schema, "description": f"{text}.{also}"}


def main() -> None:
    """Write the schema to standard output."""
    sys.stdout.write(json.dumps(run_config_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
