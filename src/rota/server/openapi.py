"""The document of the API: what every operation asks for, who may use it, and what it answers when something is wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from rota.server import examples
from rota.server.guard import rule_of
from rota.server.other_names import documented
from rota.server.problem import CODES, MEDIA_TYPE

DESCRIPTION = """\
Jobs, schedules and tasks of one Rota, and who may see and change them.

Sign in by a link (`/auth/magic-link`), which gives a browser its cookie and other clients a JWT, or use an API token of
`/auth/tokens`. `x-rota-rule` of each operation is what it takes: `public`, `signed in`, or an operation that the role must have.
Every error is `application/problem+json`; decide by its `code`, which stays."""

TAGS = {
    "health": "Whether the server lives and is ready, and its metrics.",
    "auth": "Sign in and out.",
    "tokens": "Tokens for programs: one's own, and those of others.",
    "users": "Who has an account, and their roles.",
    "audit": "Who has changed what.",
    "own jobs": "HTTP jobs: calls that are made later, each user's own.",
    "calendars": "Synchronisations of calendars.",
    "stream": "What changes, as it changes.",
    "overview": "Everything at a glance.",
    "jobs": "Units of work: find them, look into them, run them again, stop them.",
    "schedules": "When tasks run by themselves.",
    "calendar": "What will run by itself, and what became of what was to run.",
    "tasks": "What code defines, and what operators have set over it.",
    "runs": "Attempts at jobs.",
    "logs": "What handlers have said.",
    "errors": "Failures in groups of the same kind.",
    "queues": "How full they are, and whether and how fast they are worked.",
    "workers": "The processes that run jobs.",
    "alerts": "What somebody should look at.",
    "webhooks": "Who is told of alerts.",
    "stats": "How tasks fare.",
}
SECURITY_SCHEMES = {
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "__Host-rota",
        "description": "Set by the page of a sign-in link; `rota` where the server is not reached by https.",
    },
    "bearer": {"type": "http", "scheme": "bearer", "description": "A JWT of `/auth/verify`, or an API token."},
}
PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "What is wrong, by RFC 9457.",
    "required": ["type", "title", "status", "code", "detail", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "What is wrong, in a word that stays."},
        "detail": {"type": "string", "description": "What is wrong and what to do, for people."},
        "request_id": {"type": ["string", "null"], "description": "What the server's log has it under."},
        "errors": {
            "type": "array",
            "description": "The fields that do not fit.",
            "items": {
                "type": "object",
                "required": ["field", "code", "detail"],
                "properties": {"field": {"type": "string"}, "code": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


def operation_id(route: APIRoute) -> str:
    """An operation's name: that of its function, after its noun."""
    return f"{route.tags[0]}_{route.name}".replace(" ", "_") if route.tags else route.name


def name_operations(routers: Sequence[APIRouter]) -> None:
    """Gives the operations their names that have none."""
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        route.operation_id = route.unique_id = route.operation_id or operation_id(route)


def rules(routers: Sequence[APIRouter]) -> dict[tuple[str, str], str]:
    """What every operation asks for, by path and method. One without a rule, or with two, is a mistake of ours."""
    found: dict[tuple[str, str], str] = {}
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        asked = {rule for rule in map(rule_of, _calls(route.dependant)) if rule is not None}
        assert len(asked) == 1, f"{route.path} asks for {sorted(asked) or 'nothing'}: every route has exactly one rule"
        for method in route.methods or ():
            found[route.path_format, method.lower()] = asked.copy().pop()
    return found


def document(asgi: FastAPI, routers: Sequence[APIRouter]) -> dict[str, Any]:
    """The whole document; the path below which the server is reached is for who sends it to add."""
    made = copy.deepcopy(asgi.openapi())
    components = made.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    components["securitySchemes"] = SECURITY_SCHEMES
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form of errors, which nobody gets
        components["schemas"].pop(unused, None)
    _document_other_names(made, routers)
    for (path, method), rule in rules(routers).items():
        if (operation := made["paths"].get(path, {}).get(method)) is not None:
            _complete(operation, rule)
    examples.fill(made)
    _portable(made)
    made["tags"] = [{"name": name, "description": words} for name, words in TAGS.items()]
    return made


def _document_other_names(made: dict[str, Any], routers: Sequence[APIRouter]) -> None:
    """Add what queries read under other names; in bodies the models' own schemas have it."""
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        names: dict[str, str] = {}
        for query in route.dependant.query_params:
            names |= getattr(query.field_info.annotation, "other_names", {})
        for method in (route.methods or ()) if names else ():
            parameters = made["paths"][route.path_format][method.lower()]["parameters"]
            own = {parameter["name"]: parameter for parameter in parameters if parameter["in"] == "query"}
            parameters += [{**each, "name": other} for other, each in documented(own, names).items()]


def _portable(schema: Any) -> None:
    """Patterns as JSON Schema has them, where the end of the text is `$`; no format for durations: that one knows no fractions."""
    for each in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(each, dict):
            if isinstance(each.get("pattern"), str):
                each["pattern"] = each["pattern"].replace("\\Z", "$")
            if each.get("format") == "duration":
                del each["format"]
                each["examples"] = ["PT1M30.5S"]
        if isinstance(each, dict | list):
            _portable(each)


def _complete(operation: dict[str, Any], rule: str) -> None:
    operation["x-rota-rule"] = rule
    operation["security"] = [] if rule == "public" else [{"session": []}, {"bearer": []}]
    answers = operation["responses"]
    if "422" in answers or operation.get("parameters") or "requestBody" in operation:
        answers["422"] = _problem(422)
    for status in (429, 503) if rule == "public" else (401, 403, 429, 503):
        answers.setdefault(str(status), _problem(status))
    answers.setdefault("default", {"description": "Anything else that is wrong.", "content": _content()})


def _problem(status: int) -> dict[str, Any]:
    code, words = CODES[status]
    example = {"type": f"urn:rota:problem:{code}", "title": "…", "status": status, "code": code, "detail": words, "request_id": "…"}
    return {"description": words[:1].upper() + words[1:] + ".", "content": _content(example)}


def _content(example: dict[str, Any] | None = None) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {MEDIA_TYPE: {"schema": schema} if example is None else {"schema": schema, "example": example}}


def _calls(dependant: Dependant) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls(each)
