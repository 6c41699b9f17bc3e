"""The document of the API: complete, with a rule for every operation, and the same names each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, Depends
from tests.support.serving import Serving, settings_for

from rota import Rota
from rota.control.access import DEFAULT
from rota.server import openapi
from rota.server.asgi import make_asgi
from rota.server.guard import allow, public

pytestmark = pytest.mark.req("A03")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    asgi = make_asgi(Rota(settings=settings_for("postgresql://nobody@127.0.0.1:1/none")))
    return openapi.document(asgi, asgi.state.routers)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_has_a_rule_that_exists(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        rule = operation["x-rota-rule"]
        assert rule in ("public", "signed in") or rule in DEFAULT, name
        assert (operation["security"] == []) is (rule == "public"), name
    rules = {name: operation["x-rota-rule"] for name, operation in operations(document)}
    assert rules["GET /healthz"] == "public"
    assert rules["GET /metrics"] == "metrics.read"
    assert rules["GET /api/admin/stream"] == "jobs.read"


def test_names_of_operations_are_stable_and_unique(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(names) == len(set(names))
    assert {"health_healthz", "health_readyz", "stream_stream"} <= set(names)


def test_errors_are_documented_in_their_form(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        answers = operation["responses"]
        problems = {status: answer for status, answer in answers.items() if "application/problem+json" in answer.get("content", {})}
        assert "default" in problems, name
        if operation["x-rota-rule"] != "public":
            assert {"401", "403"} <= problems.keys(), name
        for answer in problems.values():
            assert answer["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}, name
    assert "HTTPValidationError" not in str(document)
    assert set(document["components"]["securitySchemes"]) == {"session", "bearer"}


def test_every_operation_says_what_it_does_and_bodies_have_examples(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["tags"][0] in openapi.TAGS, name
        assert operation.get("description"), name
        for body in operation.get("requestBody", {}).get("content", {}).values():
            assert "example" in str(body) or "example" in str(_resolved(document, body["schema"])), name


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"].get(name, schema)


async def test_it_is_served(server: Serving, document: dict[str, Any]) -> None:
    async with server.client.get("/openapi.json") as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")
        served = await answer.json()
    assert served["paths"].keys() == document["paths"].keys()
    assert served["servers"] == [{"url": "/"}]


async def test_no_page_that_would_load_scripts_from_elsewhere(server: Serving) -> None:
    for path in ("/docs", "/redoc"):
        async with server.client.get(path) as answer:
            assert answer.status == 404


@pytest.mark.parametrize("dependencies", [[], [Depends(public()), Depends(allow("jobs.read"))]], ids=["none", "two"])
def test_a_route_without_exactly_one_rule_is_refused(dependencies: list[Any]) -> None:
    router = APIRouter()

    @router.get("/open", dependencies=dependencies)
    async def opened() -> None: ...

    with pytest.raises(AssertionError, match="/open asks for"):
        openapi.rules([router])
