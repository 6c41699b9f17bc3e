"""The page that a mailed link opens: a button, since programs that look at mails open links too. No script, no picture."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from starlette.responses import HTMLResponse

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:20vh auto 0;padding:0 1rem;color:#1b1f24;background:#fff}"
    "h1{font-size:1.25rem}"
    "button{font:inherit;padding:.6rem 1.4rem;border:0;border-radius:.4rem;background:#1f5fbf;color:#fff;cursor:pointer}"
    "button:focus-visible{outline:3px solid #9cc2ff}"
    "@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "x-robots-tag": "noindex",
    # The address has the token in it: it is nobody else's business. With `no-referrer` browsers would not say that our own form
    # is from here.
    "referrer-policy": "same-origin",
}


def button_page(action: str, token: str, next: str) -> HTMLResponse:
    """The page with the button; whether the link is any good is seen when it is pressed."""
    return _page(
        "Sign in to Rota",
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="token" value="{escape(token)}"><input type="hidden" name="next" value="{escape(next)}">'
        f"<button autofocus>Sign in</button></form>",
    )


def refused_page() -> HTMLResponse:
    """The page for a link that is good for nothing."""
    words = "It has been used already, or it is too old. Ask for a new one."
    return _page("This link does not work", f"<p>{words}</p>", 401)


def _page(title: str, body: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{title}</h1>{body}</main></body></html>\n",
        status,
        HEADERS,
    )
