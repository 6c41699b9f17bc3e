"""What a client sees of a transaction pooler: another process number than the server's, and no notifications."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit

BACKEND_KEY, NOTIFICATION = b"K", b"A"


@asynccontextmanager
async def pooler(tcp_dsn: str) -> AsyncIterator[str]:
    """Stand between clients and the server, and give the name under which the server is then reached."""
    parts = urlsplit(tcp_dsn)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(parts.hostname, parts.port)
        for copy in (_pass_on(reader, to_server), _pass_back(from_server, writer)):
            task = asyncio.ensure_future(copy)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    query = urlencode({**dict(parse_qsl(parts.query)), "sslmode": "disable", "gssencmode": "disable"})
    netloc = f"{parts.netloc.rpartition(':')[0]}:{port}"
    try:
        yield parts._replace(netloc=netloc, query=query).geturl()
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def _pass_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            kind = await reader.readexactly(1)
            length = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack("!i", length)[0] - 4)
            if kind == BACKEND_KEY:
                body = struct.pack("!i", 1) + body[4:]
            if kind != NOTIFICATION:
                writer.write(kind + length + body)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
