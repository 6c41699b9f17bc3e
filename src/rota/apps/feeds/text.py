"""Text of strangers: decoded by what it is, without what cannot be stored, and without its markup."""

from __future__ import annotations

import codecs
import re
from html import unescape
from urllib.parse import urljoin, urlsplit

MAX_URL = 4000
MAX_READ = 20_000  # letters of HTML that are looked at for the beginning of its text

_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")
_NOT_SHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_UNSEEN = re.compile(r"[\x00-\x20\x7f\\]")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,300}\?>")
_ENTITY = re.compile(r"""<!ENTITY(?:[^>"']|"[^"]*"|'[^']*')*>?""", re.IGNORECASE)
_TAG = re.compile(r"(<[^<>]*>)")
_TAG_NAME = re.compile(r"</?[A-Za-z][A-Za-z0-9:-]*")
_SKIPPED = frozenset({"script", "style", "template", "noscript"})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_BARE = ((b"<\0\0\0", "utf-32-le"), (b"\0\0\0<", "utf-32-be"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_OFTEN_WRONG = frozenset({"iso8859-1", "ascii", "cp1252"})  # servers say so by default, whatever they send


def decode(body: bytes, content_type: str = "") -> str:
    """A document as text: by its mark, by what was said of it and holds true, else as most documents are."""
    for mark, codec in (*_BOMS, *_BARE):
        if body.startswith(mark):
            return body.decode(codec, "replace")
    declared = _DECLARED.match(body[:512])
    said = [match[1] if (match := _CHARSET.search(content_type)) else None, declared[1].decode() if declared else None]
    codecs_said = [name for each in said if (name := _codec(each)) is not None]
    if codecs_said and codecs_said[0] in _OFTEN_WRONG:
        codecs_said.insert(0, "utf-8")
    for name in (*codecs_said, "utf-8"):
        try:
            return body.decode(name)
        except UnicodeError:
            continue
    return body.decode("cp1252", "replace")


def defused(body: bytes, content_type: str = "") -> str:
    """A document of XML as text without what declares entities: those grow when they are read, and no feed needs them."""
    text = _DECLARATION.sub("", decode(body, content_type), count=1)
    return _ENTITY.sub("", text)


def storable(text: str, most: int) -> str:
    """Text that PostgreSQL takes, at most so long."""
    return _NOT_STORABLE.sub("\N{REPLACEMENT CHARACTER}", text[:most])


def one_line(text: str, most: int) -> str:
    """Text on one line, without control characters and signs that turn its direction; at most so long."""
    words = " ".join(_NOT_SHOWN.sub(" ", text[: most * 4]).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def plain(html: str, most: int) -> str:
    """The beginning of what HTML says, on one line and without its markup."""
    words: list[str] = []
    until: str | None = None  # the end of something whose content is no text
    # Not a parser of HTML: ours is slow where quotes and comments do not end, and strangers write those.
    for token in _TAG.split(html[:MAX_READ]):
        tag = _TAG_NAME.match(token)
        if until is not None:
            until = None if tag and tag[0].lower() == until else until
        elif tag is None:
            words.append(" " if token.startswith(("<!", "<?")) else token)
        else:
            words.append(" ")
            until = f"</{tag[0][1:].lower()}" if tag[0][1:].lower() in _SKIPPED else None
    return one_line(unescape("".join(words)), most)


def web_url(url: object, base: str = "") -> str | None:
    """A link as it may be followed from a page: absolute, http or https, nothing hidden in it; None for any other."""
    if not isinstance(url, str) or not 1 <= len(url) <= MAX_URL:
        return None
    try:
        joined = urljoin(base, url.strip())
        parts = urlsplit(joined)
        joined.encode()
    except (ValueError, UnicodeError):
        return None
    fits = parts.scheme in ("http", "https") and parts.netloc and "@" not in parts.netloc
    return joined if fits and len(joined) <= MAX_URL and not _UNSEEN.search(joined) else None


def _codec(name: str | None) -> str | None:
    """A codec in which ASCII is ASCII: in another one, what is looked for here would be hidden."""
    if name is None:
        return None
    try:
        found = codecs.lookup(name)
        if not found._is_text_encoding or "<!ENTITY".encode(found.name) != b"<!ENTITY" or found.name == "utf-7":
            return None
    except (LookupError, UnicodeError, ValueError):
        return None
    return found.name
