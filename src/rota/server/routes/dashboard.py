"""`/dashboard`: the pages for people. `/` leads there."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from rota.server import headers
from rota.server.guard import public
from rota.server.pages import ASSETS, NOT_BUILT, Built, File
from rota.server.problem import problem
from rota.server.scope import REQUEST_ID
from rota.server.state import Server, State

# Not in the document of the API: nothing here is for programs.
router = APIRouter(dependencies=[Depends(public())], include_in_schema=False)
built = Built()

THEME_COOKIE = "rota_theme"
READS = ["GET", "HEAD"]
_FOREVER = "public, max-age=31536000, immutable"


@router.api_route("/", methods=READS)
async def home(request: Request) -> Response:
    """Sends people to the dashboard."""
    return RedirectResponse(f"{_root(request)}/dashboard", 303)


@router.api_route("/dashboard", methods=READS)
async def first_page(request: Request, state: Server) -> Response:
    """The page; which one of its own it shows is for its script to see."""
    return _page(request, state)


@router.api_route("/dashboard/{path:path}", methods=READS)
async def page_or_file(request: Request, path: str, state: Server) -> Response:
    """A file of the build, or the page, for every other address."""
    if (file := built.file(path)) is not None:
        return _file(request, file, forever=path.startswith(ASSETS))
    if path.startswith(ASSETS) and built.is_there:
        # Not the page: a script of an earlier version that is gone must be seen to be gone.
        return problem(404, detail="this version of the dashboard has no such file", request_id=request.scope.get(REQUEST_ID))
    return _page(request, state)


def _page(request: Request, state: State) -> Response:
    if not built.is_there:
        return HTMLResponse(NOT_BUILT, 503)
    page = built.index(_root(request), state.settings.app.env, request.cookies.get(THEME_COOKIE))
    return HTMLResponse(page, headers=headers.PAGE)


def _file(request: Request, file: File, *, forever: bool) -> Response:
    sent = {"etag": file.etag, "cache-control": _FOREVER if forever else "no-cache", "vary": "accept-encoding"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=sent)
    body = file.body
    if file.zipped is not None and _takes_gzip(request.headers.get("accept-encoding", "")):
        body, sent["content-encoding"] = file.zipped, "gzip"
    return Response(body, headers=sent, media_type=file.media_type)


def _takes_gzip(accepted: str) -> bool:
    codings = [coding.replace(" ", "").lower() for coding in accepted.split(",")]
    return any(coding == "gzip" or (coding.startswith("gzip;q=") and coding.strip("0.") != "gzip;q=") for coding in codings)


def _root(request: Request) -> str:
    """The path below which people see this server."""
    path: str = request.scope.get("root_path", "")
    return path.rstrip("/")
