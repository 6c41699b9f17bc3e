"""Addresses of mail: one form each, and nothing that is two things at once."""

from __future__ import annotations

import pytest

from rota.errors import UsageError
from rota.model.email import parse_email


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ada@example.org", "ada@example.org"),
        (" Ada.L+rota@Example.ORG ", "ada.l+rota@example.org"),
        ("admin@localhost", "admin@localhost"),
        ("a@xn--exmple-cua.org", "a@xn--exmple-cua.org"),
        ("o'neil@a-b.example", "o'neil@a-b.example"),
    ],
)
def test_an_address(text: str, address: str) -> None:
    assert parse_email(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", "ada", "@example.org", "ada@", "a@b@c", "a b@c.d", "a@b c", ".a@b.c", "a.@b.c", "a..b@c.d"),
        *("a@-b.c", "a@b-.c", "a@b..c", "a@.b", "a@b\n", "a\n@b", "a@b\r\nBcc: x@y", "a@b\0", "\ud800@b.c"),
        *("ada@exämple.org", "ädä@example.org", "\u212a@example.org", "ı@example.org"),
        *('"a b"@c.d', "a@[127.0.0.1]", "<a@b.c>", "a@b.c,d@e.f", "a@b.c;d@e.f"),
        *("a" * 65 + "@b.c", "a@" + "b" * 64 + ".c", "a@" + "b." * 130 + "c"),
    ],
)
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address of mail"):
        parse_email(text)
