"""Where somebody goes after signing in: to a path of this server, whatever a link says."""

from __future__ import annotations

import re
from unicodedata import normalize
from urllib.parse import unquote_to_bytes

MAX_CHARS = 2000
_TURNS = 5  # of decoding, after which nothing may be left to decode
# Only what a browser leaves as it is: no spaces, no control characters, nothing beyond ASCII, no backslash, which it takes for a
# slash.
_PLAIN = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/?#\[\]-]*\Z")
_SUSPECT = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|//")


def own_path(wanted: str | None, root_path: str = "") -> str:
    """`wanted` if it is a path of ours, below `root_path`; else the dashboard."""
    return wanted if wanted is not None and _is_own(wanted, root_path) else f"{root_path}/dashboard"


def _is_own(wanted: str, root_path: str) -> bool:
    if len(wanted) > MAX_CHARS or not _PLAIN.match(wanted):
        return False
    path = re.split(r"[?#]", wanted, maxsplit=1)[0]
    # However often somebody on the way decodes it: it names no other host, and does not climb out of our path.
    for _ in range(_TURNS):
        seen = normalize("NFKC", path)  # some letters are slashes to some
        if _SUSPECT.search(seen) or not {".", ".."}.isdisjoint(seen.split("/")):
            return False
        if root_path and path != root_path and not path.startswith(f"{root_path}/"):
            return False
        try:
            decoded = unquote_to_bytes(path).decode()
        except UnicodeDecodeError:
            return False
        if decoded == path:
            return True
        path = decoded
    return False
