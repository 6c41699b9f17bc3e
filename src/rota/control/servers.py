"""Where people reach the server. Running servers record their address, so that other processes know a port that was chosen late."""

from __future__ import annotations

import socket
from datetime import timedelta

from rota.config import Settings
from rota.db.connection import AsyncConn
from rota.outbound.address import note_server_ports
from rota.store import servers as store
from rota.store.servers import RunningServer

BEAT_S = 10.0
SILENT = timedelta(seconds=3 * BEAT_S)  # a server that has not been seen for so long was killed


def machine_name() -> str:
    """Return the name of this machine, or of this container."""
    return socket.gethostname()


def configured_url(settings: Settings) -> str:
    """Return the server's address by the settings.

    Never use a request's Host header instead: anybody could have links mailed that lead to their own site.
    """
    server = settings.server
    if server.url is not None:
        return server.url.rstrip("/")
    return listening_url(server.host, server.port) + server.root_path


def listening_url(host: str, port: int) -> str:
    """Return the address of a server that listens there; one that listens everywhere is reached on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def server_url(conn: AsyncConn, settings: Settings) -> str:
    """Return server.url; without it the address of the newest server that runs on this machine, else host and port."""
    if settings.server.url is None and (running := await running_here(conn)):
        return running[0].url
    return configured_url(settings)


async def server_env(conn: AsyncConn, settings: Settings) -> str:
    """Return app.env of the newest server that runs on this machine, else of the settings.

    `rota dev` is local whatever the settings say, and a command in another terminal must not take it for production.
    """
    running = await running_here(conn)
    return running[0].env if running else settings.app.env


async def running_here(conn: AsyncConn) -> list[RunningServer]:
    """Return the servers that run on this machine, the newest first."""
    return await store.running_on(conn, machine_name(), silent=SILENT)


async def note_ports(conn: AsyncConn) -> None:
    """Keep HTTP jobs of this process from reaching the servers that run on this machine, whatever port they took."""
    note_server_ports({server.port for server in await running_here(conn)})
