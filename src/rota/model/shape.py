"""What a payload schema says of payloads: two versions of a task with the same shape can run each other's jobs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_WORDS = ("title", "description", "examples")


def shape_of(schema: Any) -> Any:
    """Return a payload schema without its words."""
    if isinstance(schema, dict):
        # A parameter may be called `title`, too: that is a schema and no word.
        return {name: shape_of(value) for name, value in schema.items() if name not in _WORDS or isinstance(value, dict)}
    return [shape_of(each) for each in schema] if isinstance(schema, list) else schema


def hash_shape(schema: dict[str, Any]) -> str:
    """Return the same for the same shape, in every process and every Python."""
    text = json.dumps(shape_of(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def show_shape(schema: dict[str, Any]) -> str:
    """Return a payload schema in short, for people: `user_id: integer, lang: string`."""
    properties = schema.get("properties", {}).items()
    return ", ".join(f"{name}: {each['type']}" if isinstance(each.get("type"), str) else name for name, each in properties)
