"""Examples in the document of the API: one for each body and answer, made from its schema, so that none is out of date."""

from __future__ import annotations

from typing import Any

DEPTH = 8
JSON = "application/json"

_BY_NAME: dict[str, Any] = {
    "task": "send_invoice",
    "queue": "default",
    "state": "failed",
    "status": "failed",
    "outcome": "failed",
    "job_state": "completed",
    "name": "nightly",
    "key": "invoice:42",
    "owner": "01980000-0000-7000-8000-00000000000a",
    "email": "ada@example.org",
    "host": "worker-1",
    "version": "1.0.0",
    "error_type": "ConnectionError",
    "error": "connection reset by peer",
    "message": "connection reset by peer",
    "fingerprint": "3f9a0c1d2e4b5a67",
    "next": "WyJqb2JzIiwiMDE5ODAwMDAtMDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAxIl0",
    "url": "https://example.org/…",
    "kind": "job_failed",
    "severity": "error",
    "subject": "send_invoice",
    "summary": "send_invoice has failed for good",
    "strategy": "cron",
    "cron": "0 3 * * *",
    "tz": "Europe/Berlin",
    "words": "At 03:00 every day, Europe/Berlin",
    "rate": "100/60s",
    "sentence": "It waits for its time.",
    "code": "not_due",
    "secret": "whsec_…",
    "token": "rota_…",
    "note": "",
    "payload": {"user_id": 42},
    "default_payload": {"user_id": 42},
}
_BY_FORMAT = {
    "uuid": "01980000-0000-7000-8000-000000000001",
    "date-time": "2026-02-22T10:00:00Z",
    "date": "2026-02-22",
    "duration": "PT1M30S",
    "email": "ada@example.org",
    "uri": "https://example.org/",
}


def fill(document: dict[str, Any]) -> None:
    """Gives every body and every answer that has none an example."""
    for operations in document["paths"].values():
        for operation in operations.values():
            contents = [operation.get("requestBody", {}).get("content", {})]
            contents += [answer.get("content", {}) for status, answer in operation["responses"].items() if status.startswith("2")]
            for content in contents:
                if (media := content.get(JSON)) and media.get("schema") and "example" not in media and "examples" not in media:
                    media["example"] = make(media["schema"], document)


def make(schema: dict[str, Any], document: dict[str, Any], name: str = "", depth: int = DEPTH) -> Any:
    """A value that fits a schema; `name` is that of the member it is for."""
    if "$ref" in schema:
        return make(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document, name, depth)
    for given in ("example", "const"):
        if given in schema:
            return schema[given]
    if schema.get("examples"):
        return schema["examples"][0]
    if "enum" in schema:
        return _BY_NAME[name] if _BY_NAME.get(name) in schema["enum"] else schema["enum"][0]
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        return make(next((each for each in choices if each.get("type") != "null"), choices[0]), document, name, depth)
    return _of_type(schema, document, name, depth)


def _of_type(schema: dict[str, Any], document: dict[str, Any], name: str, depth: int) -> Any:
    match schema.get("type"):
        case "object" if "properties" in schema and depth > 0:
            current = {each: of for each, of in schema["properties"].items() if not of.get("deprecated")}
            return {each: make(of, document, each, depth - 1) for each, of in current.items()}
        case "object":
            more = schema.get("additionalProperties")
            if isinstance(_BY_NAME.get(name), dict):
                return _BY_NAME[name]
            return (
                {"failed" if name == "states" else "1h": make(more, document, "", depth - 1)}
                if isinstance(more, dict) and depth
                else {}
            )
        case "array" if "prefixItems" in schema:
            return [make(each, document, "", depth - 1) for each in schema["prefixItems"]]
        case "array":
            return [make(schema["items"], document, name.removesuffix("s"), depth - 1)] if depth > 0 and schema.get("items") else []
        case "string":
            return _BY_FORMAT.get(schema.get("format", "")) or _named(name)
        case "integer" | "number":
            return schema.get("default", max(schema.get("minimum", 1), 1))
        case "boolean":
            return schema.get("default", False)
    return None


def _named(name: str) -> str:
    found = _BY_NAME.get(name)
    return found if isinstance(found, str) else "…"
