"""Which addresses may be called: by the address that is connected to, after its name was looked up.

Public ones may, unless they are denied; private and special ones only where they are allowed. Addresses that give away
credentials, those of clouds' metadata services and our own server's, must be allowed one by one.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from rota.config import Settings
from rota.errors import UsageError
from rota.model.http_call import Target, read_url

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# `ipaddress.is_global` is not used: on Python 3.11 it holds NAT64, 6to4, multicast and ::127.0.0.1 for global.
_CLOSED_4 = [
    (IPv4Network(network), what)
    for network, what in {
        "0.0.0.0/8": "this network",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared by a provider's customers",
        "127.0.0.0/8": "loopback",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved",
        "192.0.2.0/24": "for documentation",
        "192.88.99.0/24": "a relay",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "for benchmarks",
        "198.51.100.0/24": "for documentation",
        "203.0.113.0/24": "for documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
]
_PUBLIC_6 = IPv6Network("2000::/3")  # whatever lies outside of it is something special
_CLOSED_6 = [
    (IPv6Network(network), what)
    for network, what in {
        "::1/128": "loopback",
        "::ffff:0:0/96": "an IPv4 address in disguise",
        "::/96": "an IPv4 address in disguise",
        "64:ff9b::/96": "a translated IPv4 address",
        "64:ff9b:1::/48": "a translated IPv4 address",
        "2001::/32": "a Teredo tunnel",
        "2001::/23": "reserved",
        "2001:db8::/32": "for documentation",
        "2002::/16": "a 6to4 tunnel",
        "3fff::/20": "for documentation",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "site-local",
        "ff00::/8": "multicast",
    }.items()
]
_LOCAL_TRANSLATED = IPv6Network("64:ff9b:1::/48")
_ISATAP = (0x00005EFE, 0x02005EFE)

METADATA = frozenset(
    ip_address(each)
    for each in [
        "169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.253", "169.254.169.123", "100.100.100.200",
        "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::23", "fd00:ec2::123", "fd20:ce::254",
    ]
)  # fmt: skip
METADATA_NAMES = frozenset(
    ["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
     "metadata.azure.internal", "metadata.tencentyun.com", "metadata.oraclecloud.com", "metadata.packet.net",
     "metadata.platformequinix.com"]
)  # fmt: skip

# Ports on which a server of this process listens, whatever the configuration says.
own_ports: set[int] = set()
# The same of other processes on this machine, as the database has them.
_noted_ports: set[int] = set()

ADVICE = "an operator can allow it under [http] allow"


class Rules:
    """What may be called, by what the configuration allows and denies."""

    def __init__(
        self, allow: Iterable[str] = (), deny: Iterable[str] = (), *, port: int | None = None,
        is_own: Callable[[Address], bool] | None = None,
    ) -> None:  # fmt: skip
        self._allow = _Targets(allow)
        self._deny = _Targets(deny)
        self._port = port  # of Rota's server
        self._is_own = is_own or is_own_address

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """Those of a configuration."""
        return _rules(settings.http.allow, settings.http.deny, settings.server.port)

    def refuse_host(self, host: str, port: int) -> str | None:
        """Why nothing at this host can be called, whatever its name means; None when that has to be seen."""
        literal = read_address(host)
        if literal is not None:
            return self.refuse(host, literal, port)
        if host == "localhost" or host.endswith(".localhost"):
            return self.refuse(host, IPv4Address("127.0.0.1"), port)
        return self._refuse_name(host)

    def refuse(self, host: str, address: Address, port: int) -> str | None:
        """Why a connection to this address, to which the host's name leads, is not made; None when it may be."""
        if (why := self._refuse_name(host)) is not None:
            return why
        forms = [address, *embedded(address)]
        if any(self._deny.has(each) for each in forms):
            return f"{address} is denied by [http] deny"
        for each in forms:
            if self._is_sealed(each, port) and not self._opens_sealed(host, each):
                return f"{address} is {self._sealed_as(each)}: only an address that [http] allow names by itself may be called so"
        # An address within another one has to be allowed as well: a translator would take us there.
        for each in forms:
            what = closed_as(each) or ("an address of this machine" if self._is_own(each) else None)
            if what is not None and not self._opens(host, each, forms):
                return f"{address} is {what}: {ADVICE}"
        return None

    def _refuse_name(self, host: str) -> str | None:
        if self._deny.names(host):
            return f"{host} is denied by [http] deny"
        if host in METADATA_NAMES and host not in self._allow.exact:
            return f"{host} is a metadata service: only a name that [http] allow has in full may be called so"
        return None

    def _opens(self, host: str, address: Address, forms: list[Address]) -> bool:
        if self._allow.names(host) or self._allow.has(address):
            return True
        # A mapped address is the one inside it: what is allowed for that holds for both.
        return isinstance(address, IPv6Address) and address.ipv4_mapped is not None and self._allow.has(forms[-1])

    def _opens_sealed(self, host: str, address: Address) -> bool:
        named = host in METADATA_NAMES or (host == "localhost" and address.is_loopback)
        return address in self._allow.single or (named and host in self._allow.exact)

    def _is_sealed(self, address: Address, port: int) -> bool:
        return address in METADATA or self._is_our_server(address, port)

    def _sealed_as(self, address: Address) -> str:
        return "a metadata service" if address in METADATA else "where Rota's own server listens"

    def _is_our_server(self, address: Address, port: int) -> bool:
        """Whether a connection may reach Rota's server: each address of this machine does, with the server's port.

        Which address the server listens on does not matter: a connection to 0.0.0.0 or :: goes to this machine too.
        """
        if port != self._port and port not in own_ports and port not in _noted_ports:
            return False
        return address.is_unspecified or address.is_loopback or self._is_own(address)


def note_server_ports(ports: Iterable[int]) -> None:
    """Seal the ports of servers on this machine that other processes run, instead of those noted before."""
    noted = set(ports)
    _noted_ports.difference_update(_noted_ports - noted)
    _noted_ports.update(noted)


def check_url(url: str, settings: Settings) -> Target:
    """Return where a URL leads that is stored to be called later. Raises `UsageError` (field `url`) if no call to it could be made.

    Names are not looked up: what they lead to changes, and storing a URL must not depend on DNS. Each call checks the address
    that it connects to.
    """
    try:
        target = read_url(url)
    except UsageError as error:
        error.field = "url"
        raise
    return check_target(target, settings)


def check_target(target: Target, settings: Settings) -> Target:
    """Return the target of a call. Raises `UsageError` (field `url`) if its host can be refused without looking it up."""
    if (why := Rules.of(settings).refuse_host(target.host, target.port)) is not None:
        error = UsageError(f"url={target.url!r} may not be called: {why}")
        error.field = "url"
        raise error
    return target


@lru_cache(8)
def _rules(allow: tuple[str, ...], deny: tuple[str, ...], port: int) -> Rules:
    return Rules(allow, deny, port=port)


class _Targets:
    """A list of networks, addresses and names of the configuration."""

    def __init__(self, targets: Iterable[str]) -> None:
        self.networks: list[Network] = []
        self.exact: set[str] = set()
        self._patterns: list[re.Pattern[str]] = []
        for target in targets:
            try:
                self.networks.append(ip_network(target.strip("[]"), strict=False))
            except ValueError:
                name = target.lower().removesuffix(".")
                if "*" in name:
                    self._patterns.append(re.compile(".*".join(map(re.escape, name.split("*")))))
                else:
                    self.exact.add(name)
        self.has = lru_cache(1024)(self._has)
        self.single = {network.network_address for network in self.networks if network.num_addresses == 1}

    def names(self, host: str) -> bool:
        """Whether a name is on the list, by itself or by a pattern. A pattern does not name addresses, but for `*`."""
        return host in self.exact or any(pattern.fullmatch(host) for pattern in self._patterns)

    def _has(self, address: Address) -> bool:
        """Whether an address is in one of the networks."""
        return any(address in network for network in self.networks)


@lru_cache(1024)
def read_address(host: str) -> Address | None:
    """The address that a host is, if it is one; the zone of a link-local one is left out."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


@lru_cache(1024)
def closed_as(address: Address) -> str | None:
    """What kind of address it is, if not a public one."""
    if isinstance(address, IPv4Address):
        return next((what for network, what in _CLOSED_4 if address in network), None)
    found = next((what for network, what in _CLOSED_6 if address in network), None)
    return found or (None if address in _PUBLIC_6 else "reserved")


@lru_cache(1024)
def embedded(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses to which something on the way may translate an IPv6 address."""
    if isinstance(address, IPv4Address):
        return ()
    number = int(address)
    last = IPv4Address(number & 0xFFFFFFFF)
    if number >> 32 in (0, 0xFFFF, 0x0064_FF9B << 64):
        return () if number in (0, 1) else (last,)
    if address in _LOCAL_TRANSLATED:
        # Behind a prefix of 96 bits at the end, behind one of 48 around the ninth byte, as RFC 6052 has it.
        return last, IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    return (last,) if (number >> 32) & 0xFFFFFFFF in _ISATAP else ()


def is_own_address(address: Address) -> bool:
    """Whether an address is one of this machine's: to those a machine speaks from the same address. Nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return read_address(probe.getsockname()[0]) == address
    except OSError:
        return False  # no way leads there
