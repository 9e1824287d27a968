"""Requests, answers and webhook payloads against GitHub's own OpenAPI description.

`tests/data/github.openapi.json.gz` is cut from the npm package @octokit/openapi 23.0.2 (MIT) to the operations we use.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator, validators
from referencing import Registry
from referencing.jsonschema import DRAFT4

_DATA = Path(__file__).parent / "data" / "github.openapi.json.gz"
_LONG = {"path", "ref", "basehead"}  # parameters that may hold slashes
# Where GitHub itself does not keep to its description, and the documentation says so.
_TOLERATED = (
    re.compile(r"/(line|position)$"),  # null in a review comment that is outdated or on a whole file
    re.compile(r"head/repo$"),  # null when the fork was deleted
    re.compile(r"^GET /app/installations 200 .*/account$"),  # allOf of a user and an enterprise: nothing is both
)


def _nullable(check: Any) -> Any:
    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if instance is None and schema.get("nullable"):
            return
        yield from check(validator, value, instance, schema) or ()

    return checked


_NULLABLE = ("type", "enum", "anyOf", "oneOf", "allOf", "$ref")
_CHECKS = dict(Draft4Validator.VALIDATORS)
_extend: Any = validators.extend  # jsonschema has no types for it
_Validator: Any = _extend(Draft4Validator, {name: _nullable(_CHECKS[name]) for name in _NULLABLE})


class Contract:
    """Faults come back as lines; none is good."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._description = description
        resource = DRAFT4.create_resource(description)
        self._registry: Any = Registry().with_resource("", resource)
        routes = [(path, item) for path, item in description["paths"].items()]
        # Concrete paths before templates.
        routes.sort(key=lambda route: (route[0].count("{"), -len(route[0])))
        self._routes = [(_expression(path), path, item) for path, item in routes]

    def check(self, method: str, path: str, request: Any, status: int, response: Any) -> list[str]:
        """One exchange. `path` has neither host nor prefix. An operation that is not described is a fault."""
        found = next((route for route in self._routes if route[0].fullmatch(path) and method.lower() in route[2]), None)
        if found is None:
            return [f"not described: {method} {path}"]
        operation, name = found[2][method.lower()], f"{method} {found[1]}"
        faults = []
        asked = self._schema(operation.get("requestBody"))
        if request is not None and asked is not None and status < 400:
            faults += self._faults(asked, request, f"{name} request")
        described = operation["responses"].get(str(status))
        if described is None and status < 400:
            return [*faults, f"{name}: status {status} is not described"]
        answered = self._schema(described)
        if answered is not None and response is not None:
            faults += self._faults(answered, response, f"{name} {status} response")
        return faults

    def check_webhook(self, event: str, action: str | None, payload: Any) -> list[str]:
        """One delivery."""
        name = "-".join(part for part in ("webhook", event, action) if part).replace("_", "-")
        if name not in self._description["components"]["schemas"]:
            return [f"not described: {name}"]
        return self._faults({"$ref": f"#/components/schemas/{name}"}, payload, name)

    def _schema(self, body: Any) -> Any:
        while body and "$ref" in body:
            parts = body["$ref"].removeprefix("#/").split("/")
            body = functools.reduce(lambda node, part: node[part], parts, self._description)
        return ((body or {}).get("content") or {}).get("application/json", {}).get("schema")

    def _faults(self, schema: Any, value: Any, where: str) -> list[str]:
        errors = _Validator(schema, registry=self._registry, _resolver=self._registry.resolver("")).iter_errors(value)
        lines = []
        for error in errors:
            place = f"{where}/{'/'.join(map(str, error.absolute_path))}"
            if not any(expression.search(place) for expression in _TOLERATED):
                lines.append(f"{place}: {error.message[:160]}")
        return lines


def _expression(path: str) -> re.Pattern[str]:
    def part(match: re.Match[str]) -> str:
        return "(.+)" if match[1] in _LONG else "([^/]+)"

    return re.compile(re.sub(r"\\\{([^}]+)\\\}", part, re.escape(path)))


@functools.cache
def github() -> Contract:
    """GitHub's description, read once."""
    return Contract(json.loads(gzip.decompress(_DATA.read_bytes())))
