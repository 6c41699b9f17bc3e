"""The dashboard as the server gives it: pages, files, caches, headers, below a path, and without a build."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.server.conftest import Serve
from tests.support.serving import SECRET, Serving, listening_to, settings_for

from rota import Rota
from rota.server.asgi import make_asgi, running
from rota.server.headers import PAGE
from rota.server.pages import Built, File
from rota.server.routes import dashboard

pytestmark = pytest.mark.req("D04")

INDEX = """<!doctype html>
<html lang="en"><head><meta name="rota-root" content="" /><meta name="rota-env" content="" />
<link rel="icon" href="./icon.svg" /><script type="module" crossorigin src="./assets/index-abc.js"></script>
</head><body><div id="root"></div></body></html>
"""
SCRIPT = b"export const words = 'hello';\n" * 100


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of a few files, which servers of this test show."""
    built = tmp_path / "built"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text(INDEX)
    (built / "assets" / "index-abc.js").write_bytes(SCRIPT)
    (built / "icon.svg").write_text("<svg/>")
    (built / ".secret").write_text("not for anybody")
    (tmp_path / "outside.txt").write_text("not for anybody")
    monkeypatch.setattr(dashboard, "built", Built(built))
    return built


@pytest.mark.usefixtures("folder")
class TestPages:
    """The one page, at every address that is not a file."""

    async def test_home_leads_to_it(self, server: Serving) -> None:
        for method in ("GET", "HEAD"):
            async with server.client.request(method, "/", allow_redirects=False) as answer:
                assert (answer.status, answer.headers["location"]) == (303, "/dashboard")

    @pytest.mark.parametrize(
        "path", ["/dashboard", "/dashboard/", "/dashboard/jobs/123", "/dashboard/tasks/a%2Fb", "/dashboard/sign-in?next=/x"]
    )
    async def test_every_address_is_the_page(self, server: Serving, path: str) -> None:
        async with server.client.get(path) as answer:
            page = await answer.text()
            assert answer.status == 200
            assert answer.content_type == "text/html"
            assert answer.headers["cache-control"] == "no-store"
            assert 'src="/dashboard/assets/index-abc.js"' in page
            assert 'href="/dashboard/icon.svg"' in page
            assert 'name="rota-env" content="local"' in page

    async def test_head_is_as_get_without_the_body(self, server: Serving) -> None:
        for path in ("/dashboard", "/dashboard/assets/index-abc.js"):
            async with server.client.get(path) as got, server.client.head(path) as headed:
                assert headed.status == 200
                assert headed.headers["content-length"] == got.headers["content-length"]
                assert await headed.read() == b""

    async def test_nothing_inline_and_nothing_from_elsewhere(self, server: Serving) -> None:
        async with server.client.get("/dashboard") as answer:
            policy = answer.headers["content-security-policy"]
            assert policy == PAGE["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "require-trusted-types-for 'script'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert answer.headers["x-frame-options"] == "DENY"

    async def test_the_theme_is_there_before_any_script(self, server: Serving) -> None:
        for cookie, there in (("dark", True), ("light", True), ('"><script>', False), ("", False)):
            async with server.client.get("/dashboard", headers={"Cookie": f"rota_theme={cookie}"}) as answer:
                assert (f'data-theme="{cookie}"' in await answer.text()) == there

    async def test_other_methods_are_refused(self, server: Serving) -> None:
        for path in ("/", "/dashboard", "/dashboard/jobs"):
            async with server.client.post(path) as answer:
                assert answer.status == 405

    async def test_it_is_not_in_the_document(self, server: Serving) -> None:
        async with server.client.get("/openapi.json") as answer:
            paths = (await answer.json())["paths"]
        assert not [path for path in paths if path == "/" or path.startswith("/dashboard")]


class TestBelowAPath:
    """The address that people see is in the page, and nowhere else."""

    @pytest.mark.usefixtures("folder")
    async def test_of_a_proxy(self, serve: Serve) -> None:
        async with serve(server_root_path="/ops/rota") as server:
            async with server.client.get("/", allow_redirects=False) as answer:
                assert answer.headers["location"] == "/ops/rota/dashboard"
            for path in ("/dashboard/jobs", "/ops/rota/dashboard/jobs"):  # with proxies that cut it off, and those that do not
                async with server.client.get(path) as answer:
                    page = await answer.text()
                assert 'src="/ops/rota/dashboard/assets/index-abc.js"' in page
                assert 'name="rota-root" content="/ops/rota"' in page
            async with server.client.get("/ops/rota/dashboard/assets/index-abc.js") as answer:
                assert answer.status == 200

    @pytest.mark.usefixtures("folder")
    async def test_of_an_application_that_mounts_it(self, dsn: str) -> None:
        inner = make_asgi(Rota(settings=settings_for(dsn, auth_secret=SECRET)))
        outer = Starlette(routes=[Mount("/rota", inner)], lifespan=lambda _: running(inner))
        async with listening_to(outer) as (_, client):
            async with client.get("/rota/dashboard/jobs") as answer:
                assert 'src="/rota/dashboard/assets/index-abc.js"' in await answer.text()
            async with client.get("/rota/", allow_redirects=False) as answer:
                assert answer.headers["location"] == "/rota/dashboard"

    def test_a_path_is_text(self, folder: Path) -> None:
        built = Built(folder)
        assert built.is_there
        page = built.index('/"><script>alert(1)</script>', "local", None).decode()
        assert "<script>alert" not in page


@pytest.mark.usefixtures("folder")
class TestFiles:
    """Files of the build, and no others."""

    async def test_assets_are_kept_for_good(self, server: Serving) -> None:
        async with server.client.get("/dashboard/assets/index-abc.js") as answer:
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.content_type == "text/javascript"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert await answer.read() == SCRIPT

    async def test_compressed_for_who_takes_it(self, server: Serving) -> None:
        lengths = {}
        for accepted in ("gzip", "br, gzip;q=0.5", "gzip;q=0", "identity"):
            async with server.client.get("/dashboard/assets/index-abc.js", headers={"Accept-Encoding": accepted}) as answer:
                lengths[accepted] = (answer.headers.get("content-encoding"), int(answer.headers["content-length"]))
                assert answer.headers["vary"] == "accept-encoding"
                assert await answer.read() == SCRIPT  # whatever it came as
        zipped = len(gzip.compress(SCRIPT, 9, mtime=0))
        assert lengths["gzip"] == lengths["br, gzip;q=0.5"] == ("gzip", zipped)
        assert lengths["gzip;q=0"] == lengths["identity"] == (None, len(SCRIPT))

    async def test_others_are_asked_for_again(self, server: Serving) -> None:
        async with server.client.get("/dashboard/icon.svg") as answer:
            assert answer.headers["cache-control"] == "no-cache"
            etag = answer.headers["etag"]
        async with server.client.get("/dashboard/icon.svg", headers={"If-None-Match": f'W/"x", {etag}'}) as answer:
            assert answer.status == 304
            assert await answer.read() == b""
        async with server.client.get("/dashboard/icon.svg", headers={"If-None-Match": '"other"'}) as answer:
            assert answer.status == 200

    async def test_one_that_is_gone_is_seen_to_be_gone(self, server: Serving) -> None:
        async with server.client.get("/dashboard/assets/index-of-last-week.js") as answer:
            assert answer.status == 404
            assert answer.content_type == "application/problem+json"

    @pytest.mark.parametrize(
        "path",
        [
            *("../outside.txt", "assets/../../outside.txt", "%2e%2e/outside.txt", "..%2foutside.txt", "..\\outside.txt"),
            *("/etc/passwd", "%2fetc/passwd", ".secret", "assets/%00", "index.html", "assets"),
        ],
    )
    async def test_there_is_no_way_out(self, server: Serving, path: str) -> None:
        from yarl import URL

        async with server.client.get(URL(f"{server.url}/dashboard/{path}", encoded=True)) as answer:
            text = await answer.text()
        assert "not for anybody" not in text
        assert "root:" not in text
        assert '="./' not in text, "the page as it is on disk is for nobody: its addresses are wrong"


class TestBuilds:
    """With none, and with another one."""

    async def test_without_one_it_says_how(self, server: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dashboard, "built", Built(tmp_path / "nowhere"))
        for path in ("/dashboard", "/dashboard/jobs", "/dashboard/assets/x.js"):
            async with server.client.get(path) as answer:
                assert answer.status == 503
                assert "make dashboard" in await answer.text()
        async with server.client.get("/healthz") as answer:
            assert answer.status == 200

    async def test_a_new_one_is_seen(self, server: Serving, folder: Path) -> None:
        async with server.client.get("/dashboard") as answer:
            assert "index-abc.js" in await answer.text()
        (folder / "assets" / "index-def.js").write_bytes(b"1")
        (folder / "index.html").write_text(INDEX.replace("abc", "def"))
        async with server.client.get("/dashboard") as answer:
            assert "/dashboard/assets/index-def.js" in await answer.text()
        async with server.client.get("/dashboard/assets/index-def.js") as answer:
            assert await answer.read() == b"1"

    def test_small_and_dense_files_stay_as_they_are(self) -> None:
        assert File.of("a.js", b"x").zipped is None
        assert re.fullmatch(r'"[0-9a-f]{24}"', File.of("a.js", b"x").etag)
