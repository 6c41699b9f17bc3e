"""SQL lives in `sql/*.sql` in named blocks: a block begins with `-- name: jobs_insert` and ends at the next one."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import LiteralString, cast

_BLOCK = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(area: str, folder: str = "rota.db.sql") -> dict[str, LiteralString]:
    """The named blocks of `<area>.sql` in a folder of the package."""
    text = (files(folder) / f"{area}.sql").read_text("utf-8")
    _, *parts = _BLOCK.split(text)
    # Text that ships with the package is as much a literal as text in the code.
    return {name: cast(LiteralString, body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}
