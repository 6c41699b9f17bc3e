"""Mails: the one with a sign-in link, and how it is sent: by SMTP, by Resend, or to the log where there is nobody to send it to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from html import escape
from typing import Protocol

from rota.config import MailSettings, Settings
from rota.lean import structlog
from rota.model.redact import Shown, redact_text, secrets_known
from rota.model.sanitize import clean_text

MAX_PENDING = 500
WAITS_S = (1.0, 5.0, 25.0)  # before the second try and those after it
CLOSE_S = 5.0  # that mails on their way get when the server stops


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail; `for_log` is its text where it is written to the log, and `secret` must not be seen in any other line there."""

    to: str
    subject: str
    text: str
    html: str
    for_log: str
    secret: str


class MailRefused(Exception):
    """The other side will not take this mail, however often it is asked."""


class Transport(Protocol):
    """A way to send mails."""

    async def send(self, mail: Mail) -> None:
        """Sends one; MailRefused when there is no use in another try."""


def sign_in_mail(to: str, token: str, *, link: str, api_link: str, minutes: int) -> Mail:
    """The mail with a sign-in link."""
    about = f"It is good for {minutes} minutes, and for one sign-in. If you did not ask for it, there is nothing to do."
    text = f"Open this link, and press the button, to sign in to Rota:\n\n{link}\n\n{about}\n"
    html = (
        f'<p>Open this link, and press the button, to sign in to Rota:</p>\n<p><a href="{escape(link)}">Sign in to Rota</a></p>\n'
        f"<p>{about}</p>\n"
    )
    for_log = f'{text}Programs exchange it for a token instead: curl "{api_link}"\n'
    return Mail(to, "Sign in to Rota", text, html, for_log, token)


class LogTransport:
    """Writes mails to the log, links and all: for a computer of one's own."""

    async def send(self, mail: Mail) -> None:
        """Writes it."""
        log = structlog.get_logger(component="mail")
        log.info("magic link email (local: not sent)", to=mail.to, subject=mail.subject, body=Shown(mail.for_log))


class NoTransport:
    """Stands where nothing is set up, and says so at once: people who wait for a mail cannot."""

    missing = "no way to send mail is set up: set mail.smtp_host, or mail.resend_key"

    def __init__(self) -> None:
        structlog.get_logger(component="mail").warning(self.missing)

    async def send(self, mail: Mail) -> None:
        """Says what is missing."""
        raise MailRefused(f"{self.missing}; this one is for {mail.to}")


class SmtpTransport:
    """Sends mails by a mail server."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings

    async def send(self, mail: Mail) -> None:
        """Connects, sends, and leaves."""
        import aiosmtplib

        settings = self._settings
        message = EmailMessage()
        message["From"] = settings.sender
        message["To"] = mail.to
        message["Subject"] = mail.subject
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2].strip("> ") or "localhost")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(mail.text)
        message.add_alternative(mail.html, subtype="html")
        try:
            await asyncio.wait_for(
                aiosmtplib.send(
                    message,
                    hostname=settings.smtp_host,
                    port=settings.smtp_port,
                    username=settings.smtp_user,
                    password=settings.smtp_password,
                    use_tls=settings.smtp_tls == "tls",
                    start_tls=settings.smtp_tls == "starttls",
                    timeout=settings.timeout_s,
                ),
                settings.timeout_s,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            if all(each.code >= 500 for each in error.recipients):
                raise MailRefused(f"{type(error).__name__}: {error.recipients[0].code} {error.recipients[0].message}") from error
            raise
        except aiosmtplib.SMTPResponseException as error:
            if error.code >= 500:
                raise MailRefused(f"{type(error).__name__}: {error.code} {error.message}") from error
            raise


class ResendTransport:
    """Sends mails by Resend's interface."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings

    async def send(self, mail: Mail) -> None:
        """Posts it; a second try of the same mail is known as such there."""
        import hashlib

        import aiohttp

        settings = self._settings
        body = {"from": settings.sender, "to": [mail.to], "subject": mail.subject, "text": mail.text, "html": mail.html}
        headers = {
            "Authorization": f"Bearer {settings.resend_key}",
            "Idempotency-Key": hashlib.sha256(b"mail\0" + mail.secret.encode()).hexdigest(),
        }
        timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{settings.resend_url.rstrip('/')}/emails", json=body, headers=headers, allow_redirects=False) as answer,
        ):
            if 200 <= answer.status < 300:
                return
            said = (await answer.content.read(500)).decode("utf-8", "replace")
        if answer.status == 429 or answer.status >= 500:
            raise ConnectionError(f"Resend answered {answer.status}: {said}")
        raise MailRefused(f"Resend answered {answer.status}: {said}")


def transport_of(settings: Settings) -> Transport:
    """How mails are sent by these settings."""
    mail = settings.mail
    kind = mail.transport
    if kind == "auto":
        if settings.app.env == "local":
            kind = "log"
        elif mail.smtp_host is not None:
            kind = "smtp"
        elif mail.resend_key is not None:
            kind = "resend"
    if kind == "log":
        return LogTransport()
    if kind == "smtp" and mail.smtp_host is not None:
        return SmtpTransport(mail)
    if kind == "resend" and mail.resend_key is not None:
        return ResendTransport(mail)
    return NoTransport()


class Outbox:
    """Sends mails behind the answers to requests, with a few tries. They live in memory only: a link must not be stored, and who
    misses it asks for another one."""

    def __init__(self, transport: Transport, *, waits_s: Sequence[float] = WAITS_S) -> None:
        self._transport = transport
        self._waits_s = waits_s
        self._pending: set[asyncio.Task[None]] = set()

    def send(self, mail: Mail) -> None:
        """Begins to send it, and returns."""
        if len(self._pending) >= MAX_PENDING:
            structlog.get_logger(component="mail").error("mail dropped: too many are waiting to be sent", to=mail.to)
            return
        task = asyncio.create_task(self._deliver(mail))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def aclose(self) -> None:
        """Waits a moment for what is on its way, and gives the rest up."""
        if not self._pending:
            return
        _, late = await asyncio.wait(self._pending, timeout=CLOSE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _deliver(self, mail: Mail) -> None:
        log = structlog.get_logger(component="mail")
        with secrets_known([mail.secret]):  # the other side may repeat it in what it complains about
            for tried, wait_s in enumerate((*self._waits_s, None), start=1):
                try:
                    await self._transport.send(mail)
                    return
                except MailRefused as error:
                    log.error("mail not sent", to=mail.to, error=_said(error))
                    return
                except Exception as error:
                    if wait_s is None:
                        log.error("mail not sent", to=mail.to, tries=tried, error=_said(error))
                        return
                    log.warning("mail not sent yet", to=mail.to, tries=tried, again_in_s=wait_s, error=_said(error))
                await asyncio.sleep(wait_s)


def _said(error: Exception) -> str:
    kind = "" if isinstance(error, MailRefused) else f"{type(error).__name__}: "
    cause = "" if error.__cause__ is None or kind == "" else f" ({type(error.__cause__).__name__}: {error.__cause__})"
    return clean_text(redact_text(f"{kind}{error}{cause}"), 500)
