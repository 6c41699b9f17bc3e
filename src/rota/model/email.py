"""Addresses of mail, in the one form in which they are stored and compared."""

from __future__ import annotations

import re

from rota.errors import UsageError

MAX_EMAIL = 254

# What mail servers take without special arrangements. Letters beyond ASCII are refused rather than folded: two addresses that look
# alike, or that some fold to the same, would be one account. A domain of such letters has its `xn--` form.
_LOCAL = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
EMAIL_PATTERN = rf"{_LOCAL}@{_LABEL}(?:\.{_LABEL})*"
_EMAIL = re.compile(EMAIL_PATTERN)


def parse_email(text: str, *, name: str = "email") -> str:
    """An address in small letters; UsageError if it is none. `name` is the argument that the error speaks of."""
    address = text.strip(" \t").lower() if isinstance(text, str) and text.isascii() else ""
    local = address.partition("@")[0]
    if len(address) > MAX_EMAIL or len(local) > 64 or not _EMAIL.fullmatch(address):
        raise UsageError(
            f"{name}={str(text)[:300]!r} is not an address of mail: write it as name@example.org, at most {MAX_EMAIL} characters"
        )
    return address
