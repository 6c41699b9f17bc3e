"""Stored secrets: bound to their record, readable with every key, and wrapped anew without being read."""

from __future__ import annotations

from typing import Any

import pytest

from rota import seal, unseal
from rota.errors import ConfigError
from rota.model import secret as secret_module
from rota.model.secret import TOKEN, key_id, origin_of, rewrap, use_keys

OLD, NEW = "o" * 40, "n" * 40
RECORD: dict[str, Any] = {"kind": "feed", "id": 7, "owner": "ann", "field": "token", "origin": "https://example.org:443"}

pytestmark = pytest.mark.req("T07")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_module, "_keys", ())
    monkeypatch.setattr(secret_module, "_required", False)


def test_a_sealed_secret_names_its_key_and_comes_back() -> None:
    use_keys(OLD)
    text = seal("correct horse", **RECORD)
    found = TOKEN.fullmatch(text)
    assert found is not None
    assert (found["key"], found["kind"]) == (key_id(OLD), "feed")
    assert unseal(text, **RECORD) == "correct horse"
    assert seal("correct horse", **RECORD) == text  # so that storing it again changes nothing


@pytest.mark.parametrize("key", [OLD, None])
@pytest.mark.parametrize(
    "other", [{"kind": "job"}, {"id": 8}, {"owner": "bob"}, {"field": "secret"}, {"origin": "https://evil.example:443"}]
)
def test_a_copied_secret_cannot_be_read_elsewhere(key: str | None, other: dict[str, Any]) -> None:
    use_keys(key)
    text = seal("correct horse", **RECORD, key_needed=False)
    with pytest.raises(ConfigError, match="was sealed for another record, owner, field or origin"):
        unseal(text.replace(":feed:", f":{other.get('kind', 'feed')}:"), **{**RECORD, **other})


def test_every_key_reads_and_the_first_writes() -> None:
    use_keys(OLD)
    text = seal("correct horse", **RECORD)
    secret_module._keys = (NEW, OLD)
    assert unseal(text, **RECORD) == "correct horse"
    assert key_id(NEW) in seal("correct horse", **RECORD)


def test_rewrapping_needs_no_knowledge_of_the_record() -> None:
    use_keys(OLD)
    text = seal("correct horse", **RECORD)
    secret_module._keys = (NEW, OLD)
    moved = rewrap(text)
    assert key_id(NEW) in moved
    assert rewrap(moved) == moved
    secret_module._keys = (NEW,)
    assert unseal(moved, **RECORD) == "correct horse"
    with pytest.raises(ConfigError, match=f"was encrypted with key {key_id(OLD)}, and known are {key_id(NEW)}"):
        unseal(text, **RECORD)


@pytest.mark.parametrize("at", [30, 100])
def test_a_changed_text_is_refused(at: int) -> None:
    use_keys(OLD)
    text = seal("correct horse", **RECORD)
    changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    with pytest.raises(ConfigError, match=r"was changed after it was stored|was sealed for another record"):
        unseal(changed, **RECORD)


@pytest.mark.parametrize("key_needed", [True, False])
def test_outside_local_nothing_is_sealed_without_a_key(key_needed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_module, "_required", True)
    with pytest.raises(ConfigError, match="Set ROTA_SECRETS_KEY"):
        seal("correct horse", **RECORD, key_needed=key_needed)


def test_in_local_a_secret_that_needs_no_key_is_encoded() -> None:
    text = seal("correct horse", **RECORD, key_needed=False)
    assert "horse" not in text
    assert unseal(text, **RECORD) == "correct horse"
    with pytest.raises(ConfigError, match="there is no key to encrypt it with"):
        seal("correct horse", **RECORD)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.org/a?b#c", "https://example.org:443"),
        ("http://example.org:8080", "http://example.org:8080"),
        ("http://[::1]/", "http://::1:80"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin
