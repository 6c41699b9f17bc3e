"""A real mail server, that keeps what it gets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from ssl import SSLContext
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

LINK = re.compile(r"https?://\S+/auth/sign-in\?\S+")


@dataclass
class Mailbox:
    """What has arrived; `refusals` are the answers that the next mails get instead of being taken."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    tries: int = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Take a mail, or refuse it."""
        self.tries += 1
        if self.refusals:
            return self.refusals.pop(0)
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        message["X-Envelope-To"] = ",".join(envelope.rcpt_tos)
        self.mails.append(message)
        return "250 taken"

    def to(self, address: str) -> list[EmailMessage]:
        """Give the mails to one address."""
        return [mail for mail in self.mails if mail["X-Envelope-To"] == address]


def link_in(mail: EmailMessage) -> str:
    """Give the sign-in link of a mail."""
    body = mail.get_body(("plain",))
    assert body is not None
    found = LINK.search(body.get_content())
    assert found is not None
    return found.group()


@asynccontextmanager
async def mail_server(*, tls: SSLContext | None = None, **options: Any) -> AsyncIterator[Mailbox]:
    """Run a mail server on a port of its own during a block; with `tls` it talks in no other way."""
    mailbox = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(mailbox, loop=loop, **options), "127.0.0.1", 0, ssl=tls)
    async with server:
        mailbox.port = server.sockets[0].getsockname()[1]
        yield mailbox
