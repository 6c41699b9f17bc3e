"""Mails with sign-in links: by SMTP and by Resend, tried again, and never in the log."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.support.mailbox import link_in, mail_server
from tests.support.serving import settings_for

from rota.server.mail import (
    LogTransport,
    Mail,
    NoTransport,
    Outbox,
    ResendTransport,
    SmtpTransport,
    sign_in_mail,
    transport_of,
)

pytestmark = pytest.mark.req("H05")

TOKEN = "tokentokentokentokentokentokentokentokento0"
WAITS_S = (0.01, 0.01, 0.01)


def a_mail(to: str = "ada@example.org") -> Mail:
    link, api_link = f"https://r.example/auth/sign-in?token={TOKEN}&next=%2F", f"https://r.example/v?token={TOKEN}"
    return sign_in_mail(to, TOKEN, link=link, api_link=api_link, minutes=15)


async def send(mail: Mail, **settings: Any) -> None:
    outbox = Outbox(transport_of(settings_for("postgresql://nowhere", app_env="production", **settings)), waits_s=WAITS_S)
    outbox.send(mail)
    await outbox.aclose()


@asynccontextmanager
async def resend(*answers: int) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Run what looks like Resend: it gives these answers, then 200, and keeps what it gets."""
    left, got = list(answers), []

    async def take(request: web.Request) -> web.Response:
        got.append({"headers": dict(request.headers), "body": await request.json()})
        status = left.pop(0) if left else 200
        return web.json_response({"message": f"about token={TOKEN} and {TOKEN}"}, status=status)

    app = web.Application()
    app.router.add_post("/emails", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", got
    finally:
        await runner.cleanup()


async def test_by_smtp() -> None:
    async with mail_server() as box:
        smtp = {"mail_smtp_host": "127.0.0.1", "mail_smtp_port": box.port, "mail_smtp_tls": "none"}
        await send(a_mail(), **smtp, mail_sender="Rota <r@example.org>")
    (mail,) = box.mails
    assert (mail["From"], mail["To"], mail["Subject"]) == ("Rota <r@example.org>", "ada@example.org", "Sign in to Rota")
    assert link_in(mail) == f"https://r.example/auth/sign-in?token={TOKEN}&next=%2F"
    html = mail.get_body(("html",))
    assert html is not None
    assert f"token={TOKEN}&amp;next=%2F" in html.get_content()
    assert "/auth/verify" not in mail.as_string()  # what looks at a mail's links would use it up
    assert mail["Auto-Submitted"] == "auto-generated"


async def test_smtp_is_tried_again_and_given_up(capfd: pytest.CaptureFixture[str]) -> None:
    async with mail_server() as box:
        smtp = {"mail_smtp_host": "127.0.0.1", "mail_smtp_port": box.port, "mail_smtp_tls": "none"}
        box.refusals = [f"451 later, {TOKEN}"] * 2
        await send(a_mail(), **smtp)
        assert (len(box.mails), box.tries) == (1, 3)
        box.refusals = ["451 later"] * 9
        await send(a_mail(), **smtp)
        assert (len(box.mails), box.tries) == (1, 7)
        box.refusals = [f"550 no such user, {TOKEN}"]
        await send(a_mail(), **smtp)
        assert (len(box.mails), box.tries) == (1, 8)
    await send(a_mail(), **smtp)  # nobody is there
    said = "".join(capfd.readouterr())
    assert said.count("mail not sent") >= 5
    assert "no such user" in said
    assert TOKEN not in said


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1, and its key, that nobody has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(made.public_bytes(Encoding.PEM) + plain)
    return file


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_by_smtp_over_tls_with_a_password(
    tls: str, certificate: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    def knows(server: Any, session: Any, envelope: Any, mechanism: str, login: Any) -> AuthResult:
        return AuthResult(success=(login.login, login.password) == (b"rota", b"correct horse"))

    how: dict[str, Any] = {"tls": context, "auth_require_tls": False}
    if tls == "starttls":
        how = {"tls_context": context, "require_starttls": True, "auth_required": True}
    async with mail_server(**how, authenticator=knows) as box:
        smtp = {"mail_smtp_host": "127.0.0.1", "mail_smtp_port": box.port, "mail_smtp_tls": tls, "mail_smtp_user": "rota"}
        await send(a_mail(), **smtp, mail_smtp_password="correct horse")
        assert not box.tries  # the certificate is one that nobody knows
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        await send(a_mail(), **smtp, mail_smtp_password="correct horse")
        assert len(box.mails) == 1
        await send(a_mail(), **smtp, mail_smtp_password="wrong horse")
        assert box.tries == 1
    said = "".join(capfd.readouterr())
    assert "certificate verify failed" in said
    assert "horse" not in said


async def test_mail_is_not_sent_in_the_clear_where_that_was_not_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    async with mail_server() as box:
        for tls in ("starttls", "tls"):
            await send(a_mail(), mail_smtp_host="127.0.0.1", mail_smtp_port=box.port, mail_smtp_tls=tls, mail_timeout_s=1)
    assert not box.tries
    assert "mail not sent" in "".join(capfd.readouterr())


async def test_by_resend() -> None:
    async with resend(500, 429) as (url, got):
        await send(a_mail(), mail_resend_key="re_key", mail_resend_url=url, mail_sender="r@example.org")
    assert len(got) == 3
    assert got[0]["headers"]["Authorization"] == "Bearer re_key"
    assert got[0]["body"]["from"] == "r@example.org"
    assert got[0]["body"]["to"] == ["ada@example.org"]
    assert f"token={TOKEN}" in got[0]["body"]["text"]
    keys = {each["headers"]["Idempotency-Key"] for each in got}
    assert len(keys) == 1
    assert TOKEN not in keys.pop()


async def test_what_resend_refuses_is_not_tried_again(capfd: pytest.CaptureFixture[str]) -> None:
    async with resend(422) as (url, got):
        await send(a_mail(), mail_resend_key="re_key", mail_resend_url=url)
    assert len(got) == 1
    said = "".join(capfd.readouterr())
    assert "Resend answered 422" in said
    assert TOKEN not in said
    assert "re_key" not in said


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"app_env": "local"}, LogTransport),
        ({"app_env": "local", "mail_smtp_host": "m"}, LogTransport),
        ({"app_env": "local", "mail_smtp_host": "m", "mail_transport": "smtp"}, SmtpTransport),
        ({"app_env": "production"}, NoTransport),
        ({"app_env": "production", "mail_smtp_host": "m"}, SmtpTransport),
        ({"app_env": "staging", "mail_resend_key": "k"}, ResendTransport),
        ({"app_env": "production", "mail_smtp_host": "m", "mail_resend_key": "k", "mail_transport": "resend"}, ResendTransport),
        ({"app_env": "production", "mail_transport": "smtp"}, NoTransport),
        ({"app_env": "production", "mail_transport": "log"}, LogTransport),
    ],
)
def test_how_mails_are_sent(settings: dict[str, Any], kind: type) -> None:
    assert type(transport_of(settings_for("postgresql://nowhere", **settings))) is kind


async def test_without_a_way_to_send_the_log_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    await send(a_mail())
    said = "".join(capfd.readouterr())
    assert "set mail.smtp_host, or mail.resend_key" in said
    assert TOKEN not in said


async def test_a_mail_in_the_log_has_both_links(capfd: pytest.CaptureFixture[str]) -> None:
    await send(a_mail(), mail_transport="log")
    said = "".join(capfd.readouterr())
    assert f"/auth/sign-in?token={TOKEN}" in said
    assert f"/v?token={TOKEN}" in said


async def test_there_is_an_end_to_how_many_wait() -> None:
    sent: list[Mail] = []

    class Never:
        async def send(self, mail: Mail) -> None:
            sent.append(mail)
            raise ConnectionError(json.dumps({"token": TOKEN}))

    outbox = Outbox(Never(), waits_s=(0.05,))
    for _ in range(700):
        outbox.send(a_mail())
    await outbox.aclose()
    assert len(sent) == 2 * 500
