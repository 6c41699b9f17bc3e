"""Where somebody may be sent after signing in."""

from __future__ import annotations

import pytest

from rota.server.next_path import own_path

pytestmark = pytest.mark.req("H05")

OURS = [
    "/",
    "/jobs",
    "/jobs?state=failed&task=a.b",
    "/#/runs/5",
    "/jobs/0193-4f",
    "/a%20b",
    "/search?q=%2F%2Fevil.com",
    "/x?u=http://y",
]
EVIL = [
    "//evil.com",
    "///evil.com",
    "/\\evil.com",
    "\\/evil.com",
    "\\\\evil.com",
    "https://evil.com",
    "http:evil.com",
    "javascript:alert(1)",
    "evil.com",
    "@evil.com",
    "/%2Fevil.com",
    "/%2f%2fevil.com",
    "/%5Cevil.com",
    "/%255cevil.com",
    "/%25252fevil.com",
    "/\tevil.com",
    "/\n/evil.com",
    "/\r\nSet-Cookie: a=b",
    "/%0d%0aSet-Cookie:%20a=b",
    "/%09/evil.com",
    " //evil.com",
    "/ /evil.com",
    "/./evil/..//evil.com",
    "/.//evil.com",
    "/..//evil.com",
    "/a/../../evil",
    "/%2e%2e/evil",
    "/%2e%2e%2fevil",
    "/a//b",
    "/\u2044evil.com",
    "/\uff0fevil.com",
    "/%ef%bc%8fevil.com",
    "/%80%80",
    "/evil\0",
    "/%00",
    "/\ud800",
    "/" + "a" * 3000,
    "",
    "?a=b",
    "#a",
]  # fmt: skip


@pytest.mark.parametrize("path", OURS)
def test_a_path_of_ours_is_kept(path: str) -> None:
    assert own_path(path) == path


@pytest.mark.parametrize("path", EVIL)
def test_everything_else_is_the_first_page(path: str) -> None:
    assert own_path(path) == "/dashboard"
    assert own_path(f"/rota{path}", "/rota") in ("/rota/dashboard", f"/rota{path}")


def test_below_a_path_of_our_own() -> None:
    assert own_path("/rota/jobs", "/rota") == "/rota/jobs"
    assert own_path("/rota", "/rota") == "/rota"
    for other in ("/jobs", "/rotary", "/rota/../admin", "/rota/%2e%2e/admin", "/rota%2f..%2fadmin", "/rota//evil.com", None):
        assert own_path(other, "/rota") == "/rota/dashboard"
