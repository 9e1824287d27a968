"""``POST /graphql``: graphql-core executes the query against `schema.graphql`, with `graph` giving the values."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify
from graphql import GraphQLError, graphql_sync

from bot.localhub.graph import SCHEMA, Query, Refused
from bot.localhub.routes import caller, hub, json_body

routes = Blueprint("graphql", __name__)


@routes.post("/graphql")
def query() -> Response:
    body = json_body()
    text = body.get("query")
    if not isinstance(text, str):
        return jsonify({"errors": [{"message": "A query attribute must be specified and must be a string."}]})
    root = Query(hub(), caller())
    result = graphql_sync(
        SCHEMA, text, root_value=root, variable_values=body.get("variables"), operation_name=body.get("operationName")
    )
    answer: dict[str, Any] = {}
    if result.data is not None or not result.errors:
        answer["data"] = result.data
    if result.errors:
        answer["errors"] = [_error(error) for error in result.errors]
    return jsonify(answer)


def _error(error: GraphQLError) -> dict[str, Any]:
    body: dict[str, Any] = dict(error.formatted)
    if isinstance(error.original_error, Refused):
        body["type"] = error.original_error.kind
    return body
