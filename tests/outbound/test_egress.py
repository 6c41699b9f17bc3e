"""What may be called: every address that is not a public one is refused where the socket is made, whatever led there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest
from aiohttp import web
from tests.support.outside import Canary, Names, Outside, canary, outside

from rota.errors import UsageError
from rota.model.http_call import Target, read_url
from rota.outbound.address import METADATA, METADATA_NAMES, Rules, closed_as, embedded, is_own_address, note_server_ports
from rota.outbound.client import Bounds, Client, NotCalled, Request

pytestmark = pytest.mark.req("H11")

# Each is looked at as what a name leads to, and as what a URL says.
CLOSED = [
    "0.0.0.0", "0.0.0.1", "0.255.255.255", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "127.0.0.1",
    "127.0.0.2", "127.1.2.3", "127.255.255.254", "169.254.0.1", "169.254.169.254", "169.254.170.2", "169.254.170.23",
    "172.16.0.1", "172.31.255.254", "192.0.0.1", "192.0.0.170", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1",
    "192.168.255.255", "198.18.0.1", "198.19.255.254", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "100.100.100.200", "168.63.129.16", "::", "::1", "::2", "::127.0.0.1", "::10.0.0.1",
    "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::8.8.8.8",
    "64:ff9b:1::127.0.0.1", "64:ff9b:1:7f00:0:100::", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::",
    "2002:a00:1::1", "2002:a9fe:a9fe::", "2002:808:808::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00::1",
    "fd00:ec2::254", "fd12:3456::1", "fd20:ce::254", "fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "feff::1", "ff00::1",
    "ff02::1", "ff0e::1", "8000::1", "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "93.184.215.14", "172.15.0.1", "172.32.0.1", "100.63.255.255", "100.128.0.1", "198.17.255.255",
    "198.20.0.1", "192.0.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2003::1",
]  # fmt: skip

# Hosts as somebody may write them. They are refused when a job is made, or lead to an address that is.
WRITTEN = [
    "127.0.0.1", "127.1", "127.0.1", "0x7f.1", "0x7f000001", "0X7F.0x0.0x0.0x1", "2130706433", "017700000001", "0177.0.0.1",
    "0177.0.0.01", "127.0.0.1.", "00000177.1", "0", "0.0.0.0", "127.0.0.0x1", "4294967295", "0xffffffff", "localhost", "LOCALHOST",
    "localhost.", "foo.localhost", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "１２７.０.０.１", "①②⑦.⓪.⓪.①", "ⓛocalhost",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]", "[fe80::1%lo]", "[::1", "::1", "metadata.google.internal", "metadata",
    "METADATA.google.internal.", "instance-data", "127.0.0.1%00", "127.0.0.1%2f", "%31%32%37.0.0.1", "127.0.0.1\\@example.org",
    "example.org@127.0.0.1", "example.org:80@127.0.0.1", "127.0.0.1\t", "127.0.0.1#@example.org", "1.1.1.1 &@127.0.0.1",
]  # fmt: skip


@asynccontextmanager
async def calling(rules: Rules | None = None, **names: list[list[str]]) -> AsyncIterator[Client]:
    client = Client(rules or Rules(), resolver=Names(**names))
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def bird() -> AsyncIterator[Canary]:
    async with canary() as bird:
        yield bird


@pytest.fixture
async def server() -> AsyncIterator[Outside]:
    async with outside() as server:
        yield server


class TestClassification:
    @pytest.mark.parametrize("address", CLOSED)
    def test_closed(self, address: str) -> None:
        assert Rules().refuse("example.org", ip_address(address), 80) is not None

    @pytest.mark.parametrize("address", PUBLIC)
    def test_public(self, address: str) -> None:
        assert Rules(is_own=lambda _: False).refuse("example.org", ip_address(address), 80) is None
        assert closed_as(ip_address(address)) is None

    def test_what_is_inside_an_address(self) -> None:
        inside = {
            "::ffff:1.2.3.4": ["1.2.3.4"], "::1.2.3.4": ["1.2.3.4"], "64:ff9b::1.2.3.4": ["1.2.3.4"],
            "2002:102:304::9": ["1.2.3.4"],
            "64:ff9b:1:102:3:400::": ["0.0.0.0", "1.2.3.4"], "2001:0:102:304::fefd:fcfb": ["1.2.3.4", "1.2.3.4"],
            "2606::5efe:1.2.3.4": ["1.2.3.4"], "2606::1": [], "::1": [],
        }  # fmt: skip
        assert {address: [str(each) for each in embedded(ip_address(address))] for address in inside} == inside

    def test_our_own_machine_and_server(self) -> None:
        assert is_own_address(ip_address("127.0.0.1"))
        assert not is_own_address(ip_address("203.0.113.77"))
        mine = ip_address("8.8.4.4")
        rules = Rules(port=8000, is_own=lambda address: address == mine)
        assert "an address of this machine" in str(rules.refuse("x.org", mine, 80))
        assert "own server listens" in str(rules.refuse("x.org", mine, 8000))
        assert rules.refuse("x.org", ip_address("8.8.8.8"), 8000) is None
        allowed = Rules(["127.0.0.0/8"], port=8000)
        assert allowed.refuse("x.org", ip_address("127.0.0.1"), 80) is None
        assert "own server listens" in str(allowed.refuse("x.org", ip_address("127.0.0.1"), 8000))
        assert Rules(["127.0.0.1"], port=8000).refuse("x.org", ip_address("127.0.0.1"), 8000) is None

    @pytest.mark.parametrize(
        "address",
        ["0.0.0.0", "127.0.0.1", "127.9.9.9", "::", "::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1", "::127.0.0.1",
         "64:ff9b::7f00:1", "2002:7f00:1::", "8.8.4.4", "::ffff:8.8.4.4", "2606:4700::1"],
    )  # fmt: skip
    def test_no_allowed_network_opens_our_own_server(self, address: str) -> None:
        mine = {ip_address("8.8.4.4"), ip_address("2606:4700::1")}
        rules = Rules(["0.0.0.0/0", "::/0", "*"], port=8000, is_own=mine.__contains__)
        assert "own server listens" in str(rules.refuse("x.org", ip_address(address), 8000))
        assert rules.refuse("x.org", ip_address(address), 80) is None

    def test_the_port_of_a_running_server_counts_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rota.outbound.address.own_ports", {9000})
        rules = Rules(["0.0.0.0/0"], port=8000)
        assert "own server listens" in str(rules.refuse_host("0.0.0.0", 9000))
        assert rules.refuse_host("0.0.0.0", 9001) is None

    def test_the_ports_of_other_processes_are_those_noted_last(self) -> None:
        rules = Rules(["0.0.0.0/0"], port=8000)
        note_server_ports([9001, 9002])
        assert "own server listens" in str(rules.refuse_host("127.0.0.1", 9001))
        note_server_ports([9002])
        assert rules.refuse_host("127.0.0.1", 9001) is None
        assert "own server listens" in str(rules.refuse_host("127.0.0.1", 9002))
        note_server_ports([])
        assert rules.refuse_host("127.0.0.1", 9002) is None

    def test_allowing_localhost_by_name_opens_our_own_server_there(self) -> None:
        rules = Rules(["localhost"], port=8000)
        assert rules.refuse_host("localhost", 8000) is None
        assert rules.refuse("localhost", ip_address("::1"), 8000) is None
        assert "own server listens" in str(rules.refuse_host("127.0.0.1", 8000))
        assert "own server listens" in str(rules.refuse("x.org", ip_address("127.0.0.1"), 8000))
        assert "metadata" in str(rules.refuse("localhost", ip_address("169.254.169.254"), 80))


class TestLists:
    def test_networks_and_addresses_are_opened(self) -> None:
        rules = Rules(["10.1.0.0/16", "192.168.7.7", "fd00:1::/32"])
        for address in ("10.1.2.3", "192.168.7.7", "::ffff:10.1.2.3", "fd00:1::9"):
            assert rules.refuse("x.org", ip_address(address), 80) is None
        for address in ("10.2.2.3", "192.168.7.8", "::ffff:10.2.0.1", "::10.1.2.3", "64:ff9b::10.1.2.3", "fd00:2::9", "127.0.0.1"):
            assert rules.refuse("x.org", ip_address(address), 80) is not None

    def test_names_are_opened(self) -> None:
        rules = Rules(["*.internal", "hooks.example.org"])
        for host in ("a.internal", "a.b.internal", "hooks.example.org"):
            assert rules.refuse(host, ip_address("10.0.0.1"), 80) is None
        for host in ("internal", "internal.org", "ahooks.example.org", "hooks.example.org.evil.org", "hooksxexample.org"):
            assert rules.refuse(host, ip_address("10.0.0.1"), 80) is not None

    def test_what_is_denied_stays_so(self) -> None:
        rules = Rules(["*", "10.0.0.0/8"], ["10.9.0.0/16", "bad.org", "*.bad.org", "8.8.8.8"])
        assert rules.refuse("good.org", ip_address("10.1.0.1"), 80) is None
        for host, address in (
            ("good.org", "10.9.1.1"), ("good.org", "::ffff:10.9.1.1"), ("good.org", "64:ff9b::10.9.1.1"), ("good.org", "8.8.8.8"),
            ("bad.org", "1.1.1.1"), ("x.bad.org", "1.1.1.1"),
        ):  # fmt: skip
            assert "denied" in str(rules.refuse(host, ip_address(address), 80))
        assert "denied" in str(rules.refuse_host("bad.org", 80))

    @pytest.mark.parametrize("address", sorted(map(str, METADATA)))
    def test_metadata_is_opened_by_its_exact_address_only(self, address: str) -> None:
        place = ip_address(address)
        for allow in (["*"], ["0.0.0.0/0", "::/0"], ["x.org"], ["169.254.0.0/16", "fd00::/8", "100.64.0.0/10", "192.0.0.0/24"]):
            assert "metadata" in str(Rules(allow).refuse("x.org", place, 80))
        assert Rules([address]).refuse("x.org", place, 80) is None

    @pytest.mark.parametrize("name", sorted(METADATA_NAMES))
    def test_metadata_is_opened_by_its_exact_name_only(self, name: str) -> None:
        assert "metadata" in str(Rules(["*", f"*{name[1:]}"]).refuse_host(name, 80))
        assert Rules([name]).refuse_host(name, 80) is None
        assert Rules([name]).refuse(name, ip_address("169.254.169.254"), 80) is None
        assert Rules([name]).refuse("x.org", ip_address("169.254.169.254"), 80) is not None


class TestNothingArrives:
    """With real sockets: a listener on loopback gets no connection and no byte."""

    @pytest.mark.parametrize("host", WRITTEN)
    async def test_however_it_is_written(self, bird: Canary, host: str) -> None:
        """Where the check of a job that is made lets it pass, the guard does not."""
        async with calling() as client:
            try:
                target = read_url(f"http://{host}:{bird.port}/")
            except UsageError:
                pass
            else:
                with pytest.raises(NotCalled) as raised:
                    await client.call(Request(target), Bounds(timeout_s=2))
                assert raised.value.kind == "refused"
        assert (bird.connections, bird.bytes) == (0, 0)

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "0177.0.0.1", "::1", "::ffff:127.0.0.1", "0", "0.0.0.0"],
    )
    async def test_past_every_check_but_the_socket(self, bird: Canary, host: str) -> None:
        """As if somebody had put a job into the table that was never looked at."""
        shown = f"[{host}]" if ":" in host else host
        async with calling() as client:
            client._rules.refuse_host = lambda *_: None  # type: ignore[method-assign]
            with pytest.raises(NotCalled):
                await client.call(Request(Target(f"http://{shown}:{bird.port}/", "", host, bird.port)), Bounds(timeout_s=2))
        assert (bird.connections, bird.bytes) == (0, 0)

    @pytest.mark.parametrize("address", CLOSED)
    async def test_whatever_a_name_leads_to(self, bird: Canary, address: str) -> None:
        async with calling(evil_org=[[address]]) as client:
            with pytest.raises(NotCalled, match="may not be called") as raised:
                await client.call(Request(read_url(f"http://evil.org:{bird.port}/")), Bounds(timeout_s=2))
        assert raised.value.kind == "refused"
        assert (bird.connections, bird.bytes) == (0, 0)

    async def test_a_name_that_means_something_else_the_second_time(self, bird: Canary, server: Outside) -> None:
        """The name is good when it is looked at and bad when it is called, in either order."""
        rules = Rules(["127.0.0.9"])
        for answers in ([["127.0.0.9"], ["127.0.0.1"]], [["127.0.0.1"], ["127.0.0.1"]]):
            async with calling(rules, rebind_org=answers) as client:
                for _ in range(3):
                    with pytest.raises(NotCalled):
                        await client.call(Request(read_url(f"http://rebind.org:{bird.port}/")), Bounds(timeout_s=2))
                    client._session.connector.clear_dns_cache()  # type: ignore[union-attr]
        assert (bird.connections, bird.bytes) == (0, 0)

    async def test_some_of_a_names_addresses(self, bird: Canary, server: Outside) -> None:
        """Of several addresses those that may be called are, the others are not."""
        rules = Rules(["127.0.0.0/8"], ["127.0.0.1"])
        async with calling(rules, mixed_org=[["127.0.0.1", "::1", "127.0.0.1"]]) as client:
            with pytest.raises(NotCalled, match="may not be called"):
                await client.call(Request(read_url(f"http://mixed.org:{bird.port}/")), Bounds(timeout_s=2))
        async with calling(Rules(["127.0.0.1"]), mixed_org=[["::1", "10.0.0.1", "127.0.0.1"]]) as client:
            answer = await client.call(Request(read_url(f"http://mixed.org:{server.port}/")))
        assert answer.status == 204
        assert (bird.connections, bird.bytes) == (0, 0)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize(
        "location",
        ["http://[::1]:{port}/", "http://evil.org:{port}/", "//[::1]:{port}/x", "http://0x7f.1:{port}/", "http://2130706433:{port}/",
         "http://localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://u:p@evil.org:{port}/", "ftp://evil.org:{port}/",
         "http://evil。org:{port}/", "http://metadata.google.internal/", "file:///etc/passwd", "http://good.org:{own}/again"],
    )  # fmt: skip
    async def test_where_it_is_redirected_to(self, bird: Canary, server: Outside, status: int, location: str) -> None:
        """The first host may be called; the one that it names is looked at anew, also after another hop."""
        where = location.format(port=bird.port, own=server.port)

        async def answer(request: web.Request) -> web.Response:
            to = where if request.path != "/again" else f"http://evil.org:{bird.port}/"
            return web.Response(status=status, headers={"Location": to})

        server.answer = answer
        names = {"good_org": [["127.0.0.1"]], "evil_org": [["127.0.0.1"]]}
        async with calling(Rules(["good.org"]), **names) as client:
            with pytest.raises(NotCalled) as raised:
                await client.call(Request(read_url(f"http://good.org:{server.port}/")), Bounds(timeout_s=3))
        assert raised.value.kind in ("refused", "redirect")
        assert (bird.connections, bird.bytes) == (0, 0)

    async def test_a_connection_that_is_kept_does_not_open_a_door(self, bird: Canary, server: Outside) -> None:
        """A connection was made for one host; another host with the same address is looked at by itself."""
        names = {"good_org": [["127.0.0.1"]], "evil_org": [["127.0.0.1"]]}
        async with calling(Rules(["good.org"]), **names) as client:
            for _ in range(2):
                await client.call(Request(read_url(f"http://good.org:{server.port}/")))
            with pytest.raises(NotCalled, match="may not be called"):
                await client.call(Request(read_url(f"http://evil.org:{server.port}/")))
            with pytest.raises(NotCalled, match="may not be called"):
                await client.call(Request(read_url(f"http://127.0.0.1:{server.port}/")))
        assert len(server.got) == 2

    async def test_no_proxy_is_believed(self, bird: Canary, server: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{bird.port}")
        async with calling(Rules(["127.0.0.1"])) as client:
            await client.call(Request(read_url(server.url)))
        assert (bird.connections, len(server.got)) == (0, 1)
