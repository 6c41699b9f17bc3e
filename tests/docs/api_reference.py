"""docs/api.md, made from the document that the server gives at /openapi.json."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

from starlette.requests import Request

from rota import Rota
from rota.config import load_settings
from rota.server.asgi import make_asgi

METHODS = ("get", "post", "put", "patch", "delete")  # HEAD is as GET


def document(*apps: str) -> dict[str, Any]:
    """The OpenAPI document of a server, whose application includes these; no database is asked."""
    settings = load_settings(database_url="postgresql://nowhere/", app_env="local", auth_secret="x" * 32)
    app = Rota(settings=settings)
    for each in apps:
        app.include(each)
    asgi = make_asgi(app)
    endpoint: Any = next(route for route in _routes(asgi) if route.path == "/openapi.json").endpoint
    answer = asyncio.run(endpoint(Request({"type": "http", "root_path": "", "headers": []})))
    found: dict[str, Any] = json.loads(answer.body)
    return found


def api() -> str:
    """docs/api.md."""
    made = document()
    by_noun: dict[str, list[tuple[str, str, dict[str, Any]]]] = defaultdict(list)
    for path, operations in made["paths"].items():
        for method in METHODS:
            if method in operations:
                by_noun[operations[method].get("tags", ["other"])[0]].append((path, method, operations[method]))
    lines = [
        "# API",
        "",
        "Made from the document that every server has at `/openapi.json`, which has the schemas of all answers, too. A rule is",
        "what an operation takes: `public`, `signed in`, or an operation that the role must have ([access](access.md)). Every",
        "error is `application/problem+json` with a `code` that stays. What needs somebody answers 401 and 403 as well, and",
        "everything may answer 422 (it does not fit), 429 (too often) and 503 (the database is away).",
    ]
    for noun, operations in by_noun.items():
        lines += ["", f"## {noun}"]
        for path, method, operation in operations:
            lines += ["", f"### `{method.upper()} {path}`", "", *_describe(operation, made)]
    return "\n".join(lines) + "\n"


def _describe(operation: dict[str, Any], made: dict[str, Any]) -> list[str]:
    words = " ".join((operation.get("description") or operation.get("summary") or "").split())
    lines = [words, "", f"Rule: `{operation['x-rota-rule']}`. Answers: {_answers(operation)}."]
    rows = [
        (f"`{each['name']}`", each["in"], _kind(each["schema"]), each.get("description") or each["schema"].get("description"))
        for each in operation.get("parameters", ())
        if not each.get("deprecated")  # docs/other-names.md has those
    ]
    for schema in _bodies(operation):
        fields = _resolve(schema, made)
        required = fields.get("required", ())
        for name, field in fields.get("properties", {}).items():
            place = "body, required" if name in required else "body"
            if not field.get("deprecated"):
                rows.append((f"`{name}`", place, _kind(field), field.get("description")))
    if rows:
        lines += ["", "| | in | | |", "|---|---|---|---|"]
        lines += ["| " + " | ".join(_cell(cell or "") for cell in row) + " |" for row in rows]
    return lines


def _answers(operation: dict[str, Any]) -> str:
    usual = {"401", "403", "422", "429", "503", "default"}
    return ", ".join(status for status in operation["responses"] if status not in usual)


def _bodies(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [content["schema"] for content in operation.get("requestBody", {}).get("content", {}).values() if "schema" in content]


def _resolve(schema: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return _resolve(choice, made)
    reference: str | None = schema.get("$ref")
    return schema if reference is None else made["components"]["schemas"][reference.rsplit("/", 1)[1]]


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return f"{schema['$ref'].rsplit('/', 1)[1]}"
    if choices := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_kind(choice) for choice in choices))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kind = schema.get("format") or schema.get("type") or "anything"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _routes(asgi: Any) -> list[Any]:
    """FastAPI may keep the routes of a router together."""
    found = []
    for route in asgi.routes:
        found += [route] if hasattr(route, "path") else _routes(getattr(route, "original_router", None) or route)
    return found
