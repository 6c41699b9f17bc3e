"""Who asks, when proxies stand in between, and below which path we are.

What a proxy says in X-Forwarded-For and X-Forwarded-Proto is believed only if the connection comes from one of
server.trusted_proxies: anybody can write such a header.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

from rota.config import ServerSettings
from rota.errors import ConfigError

Address = IPv4Address | IPv6Address


class Proxies:
    """The addresses and networks of server.trusted_proxies."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = [_network(name) for name in trusted]

    def trust(self, host: str) -> bool:
        """Return whether an address is that of a trusted proxy."""
        if not self._networks or (address := _address(host)) is None:
            return False
        return any(address in network for network in self._networks)


def peer_of(host: str) -> str:
    """Name the computer behind an address: of IPv6 its /64 network, since one has as many addresses as it likes."""
    address = _address(host)
    if isinstance(address, IPv6Address):
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return host[:100] if address is None else str(address)


class Proxied:
    """Puts the address of who asks, the scheme they used and our own path into the scope."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._root_path = settings.root_path
        self._proxies = Proxies(settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Corrects the scope of a request."""
        if scope["type"] == "http":
            if self._root_path and not scope.get("root_path"):  # mounted in another application, that one knows the path
                scope["root_path"] = self._root_path
            if scope.get("client") and self._proxies.trust(scope["client"][0]):
                self._believe(scope)
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope) -> None:
        forwarded_for, proto = _values(scope, b"x-forwarded-for"), _values(scope, b"x-forwarded-proto")
        # The nearest proxy wrote the last entry. Those before it are as good as who wrote them: the first that is not a proxy of
        # ours is who asks, and whatever stands before that is hearsay.
        for entry in reversed(forwarded_for):
            if (address := _address(_without_port(entry))) is None:
                break
            scope["client"] = (str(address), 0)
            if not self._proxies.trust(str(address)):
                break
        if proto and proto[-1] in ("http", "https"):
            scope["scheme"] = proto[-1]


def _values(scope: Scope, wanted: bytes) -> list[str]:
    joined = b",".join(value for name, value in scope["headers"] if name == wanted)
    return [part.strip() for part in joined.decode("latin-1").split(",") if part.strip()]


def _without_port(entry: str) -> str:
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _network(name: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(name, strict=False)
    except ValueError as error:
        raise ConfigError(f"server.trusted_proxies={name!r} is neither an address nor a network such as 10.0.0.0/8") from error
