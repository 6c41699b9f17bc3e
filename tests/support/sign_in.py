"""Signs in by a link that a command has printed, as somebody with a browser would."""

from __future__ import annotations

import http.client
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.wait import PATIENCE_S

LINK = re.compile(r"Sign in \([^)]*\): (\S+)")


def printed_link(said: str) -> str | None:
    """Give the last link to sign in by."""
    found = LINK.findall(said)
    return found[-1] if found else None


def press_button(link: str) -> str | None:
    """Follow a link and press its button; the cookie that this gives, None if it gives none."""
    parts = urlsplit(link)
    assert _ask(parts.netloc, "GET", f"{parts.path}?{parts.query}")[0] == 200
    form = urlencode({"token": parse_qs(parts.query)["token"][0]})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"{parts.scheme}://{parts.netloc}"}
    status, got, _ = _ask(parts.netloc, "POST", parts.path, form, headers)
    return got["Set-Cookie"].partition(";")[0] if status == 303 else None


def who_am_i(link: str, cookie: str) -> dict[str, Any]:
    """Ask the server of a link who one is."""
    status, _, body = _ask(urlsplit(link).netloc, "GET", "/auth/me", headers={"Cookie": cookie})
    assert status == 200, body
    said: dict[str, Any] = json.loads(body)
    return said


def _ask(where: str, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> Any:
    connection = http.client.HTTPConnection(where, timeout=PATIENCE_S)  # a server that is still starting answers when it has
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()
