"""The built dashboard: its files, and its one page as it must be for a request.

The files are read once, and again when there is a new build. A request names one of them or none: it never becomes a path of the
file system, so that there is nothing to climb out of.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "dashboard"  # where the build puts it, see hatch_build.py
INDEX = "index.html"
ASSETS = "assets/"  # whose names change with what is in them
THEMES = frozenset({"light", "dark"})

_SMALL = 1000  # bytes below which compression gains nothing
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rota</title><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"></head><body><main><h1>The dashboard is not built</h1>
<p>Packages of Rota bring it along; this is a checkout of the source. Build it with <code>make dashboard</code>, and load this page
again. No Node is needed for that. The API and the command <code>rota</code> work without it.</p></main></body></html>
"""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is sent."""

    body: bytes
    zipped: bytes | None  # where that is shorter
    media_type: str
    etag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> File:
        """A file with everything that answers need of it."""
        media_type = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        zipped = gzip.compress(body, 9, mtime=0) if len(body) > _SMALL else None
        return cls(body, zipped if zipped and len(zipped) < len(body) else None, media_type, _etag(body))


class Built:
    """What the build has made, if there is one."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._seen = 0  # of which moment the index was that we have read
        self._index = ""
        self._files: Mapping[str, File] = {}

    @property
    def is_there(self) -> bool:
        """Whether there is a build; looks for a new one."""
        try:
            seen = (self._folder / INDEX).stat().st_mtime_ns
        except OSError:
            self._seen = 0
            return False
        if seen != self._seen:
            self._read()
            self._seen = seen
        return True

    def file(self, name: str) -> File | None:
        """A file by its name within the build, with slashes; None if there is none of that name. The index is none."""
        return self._files.get(name) if self.is_there else None

    def index(self, root_path: str, environment: str, theme: str | None) -> bytes:
        """The page, with the path below which people see the server, the environment's name, and the theme that they chose."""
        assert self._seen, "ask first whether it is there"
        root = escape(root_path)
        page = self._index.replace('="./', f'="{root}/dashboard/')
        page = page.replace('name="rota-root" content=""', f'name="rota-root" content="{root}"')
        page = page.replace('name="rota-env" content=""', f'name="rota-env" content="{escape(environment)}"')
        if theme in THEMES:
            page = page.replace("<html ", f'<html data-theme="{theme}" ', 1)
        return page.encode()

    def _read(self) -> None:
        files = {}
        for path in sorted(self._folder.rglob("*")):
            name = path.relative_to(self._folder).as_posix()
            if path.is_file() and name != INDEX and not name.startswith("."):
                files[name] = File.of(name, path.read_bytes())
        self._index = (self._folder / INDEX).read_text("utf-8")
        self._files = files


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:24]}"'
