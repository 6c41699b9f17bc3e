"""The socket that a server listens on. Whoever opens it can hand it on to the processes that serve."""

from __future__ import annotations

import socket

from rota.control.servers import listening_url
from rota.errors import ConfigError

BACKLOG = 256  # connections that wait to be accepted; an event loop accepts all of them at once


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"cannot listen on {host}:{port}: {words}; name another address with --host and --port, or server.host and server.port"
        ) from error


def open_usual_or_free(host: str, port: int) -> socket.socket:
    """A socket on the usual port, or on any other if somebody has that one."""
    try:
        return open_socket(host, port)
    except ConfigError:
        return open_socket(host, 0)


def take_over(fd: int) -> socket.socket:
    """A socket that listens already, inherited from the process that started us."""
    try:
        listening = socket.socket(fileno=fd)
        if not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listening.detach()
            raise ConfigError(f"--fd {fd} does not listen: open it for listening before it is handed on")
    except OSError as error:
        raise ConfigError(f"--fd {fd} is no socket that could be listened on: {error.strerror}") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Where a socket is reached, as a URL; one that listens everywhere is reached on this computer."""
    host, port = listening.getsockname()[:2]
    return listening_url(host, port)
