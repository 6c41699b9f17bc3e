"""`/auth`: sign in by a mailed link, sign out, and who one is."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse

import rota
from rota.control import accounts
from rota.control.access import DEFAULT
from rota.control.audit import record
from rota.control.servers import configured_url
from rota.errors import AuthError, Forbidden, UsageError
from rota.server import sign_in_page
from rota.server.fields import Body, Email
from rota.server.guard import Principal, check_origin, cookie_name, is_https, public, signed_in
from rota.server.mail import sign_in_mail
from rota.server.next_path import own_path
from rota.server.proxies import peer_of
from rota.server.refusals import Refusal
from rota.server.state import State, state_of
from rota.store import accounts as store

router = APIRouter(prefix="/auth", tags=["auth"])

MAX_TOKEN = 200
MAX_FORM_BYTES = 8192


class LinkRequest(Body):
    """An address that wants to sign in."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "you@example.com", "next": "/"}]})

    email: Annotated[Email, Field(description="Where the link is mailed to.")]
    next: str | None = Field(default=None, max_length=2000, description="The path of this server to go to afterwards.")


class LinkRequested(BaseModel):
    """The same answer for every address."""

    message: str = "If this address may sign in, a link is on its way."


class Jwt(BaseModel):
    """A token for `Authorization: Bearer`."""

    token: str = Field(examples=["eyJhbGciOiJIUzI1NiIsImtpZCI6Ii4uLiIsInR5cCI6ImF0K2p3dCJ9..."])


class Me(BaseModel):
    """Who is signed in, and what they may do."""

    account_id: UUID
    email: str
    role: str
    via: str
    scopes: list[str] | None
    may: list[str] = Field(description="The operations that are theirs.", examples=[["jobs.read", "jobs.change"]])
    app: str = Field(description="What the application is called.", examples=["shop"])
    apps: list[str] = Field(description="What it includes beside its own tasks.", examples=[["rota.apps.feeds"]])
    environment: str = Field(description="Where it runs: local, staging or production.", examples=["production"])
    version: str = Field(description="Rota's.")


@router.post("/magic-link", dependencies=[Depends(public())])
async def request_link(request: Request, body: LinkRequest, background: BackgroundTasks) -> LinkRequested:
    """Mails a link that signs in. The answer is the same for every address, known or not, and however often it asks."""
    state = state_of(request)
    async with state.connection() as conn:
        token = await accounts.request_link(conn, state.settings, body.email, peer=_peer(request))
    if token is not None:
        next = None if body.next is None else own_path(body.next, _root(request))
        background.add_task(
            _mail, state, body.email, token, next, _peer(request)
        )  # after the answer: who waits for it must not notice
    return LinkRequested()


@router.get("/verify", dependencies=[Depends(public())])
async def verify(
    request: Request, token: Annotated[str, Query(min_length=1, max_length=MAX_TOKEN, description="From the mailed link.")]
) -> Jwt:
    """Exchanges a link's token for a JWT, once. Mails do not link here: what looks at a mail's links must not use them up."""
    state = state_of(request)
    auth = state.settings.auth
    async with state.connection() as conn:
        known = await accounts.sign_in(conn, auth, token, browser=False, peer=_peer(request))
    return Jwt(token=state.signer.issue(known.session_id, known.account.id, hours=auth.jwt_hours))


@router.head("/sign-in", dependencies=[Depends(public())], include_in_schema=False)
@router.get("/sign-in", dependencies=[Depends(public())], response_class=HTMLResponse)
async def show_button(
    request: Request,
    token: Annotated[str, Query(max_length=MAX_TOKEN)] = "",
    next: Annotated[str | None, Query(max_length=2000)] = None,
) -> Response:
    """The page that a mailed link opens. It uses nothing up."""
    root = _root(request)
    return sign_in_page.button_page(f"{root}{accounts.SIGN_IN_PATH}", token, own_path(next, root))


_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "properties": {"token": {"type": "string"}, "next": {"type": "string"}},
                    "required": ["token"],
                    "example": {"token": "5Zr…", "next": "/"},
                }
            }
        },
    }
}


@router.post(
    "/sign-in",
    dependencies=[Depends(public())],
    response_class=RedirectResponse,
    status_code=303,
    openapi_extra=_FORM,
    responses={
        303: {"description": "Signed in: the cookie is set, and `Location` is where to go."},
        401: {"description": "The link is good for nothing any more.", "content": {"text/html": {"schema": {"type": "string"}}}},
    },
)
async def sign_in(request: Request) -> Response:
    """Uses a link up: signs the browser in, and sends it on."""
    check_origin(request)  # or another site could sign people in here, as somebody else
    state = state_of(request)
    form = await _form(request)
    try:
        async with state.connection() as conn:
            known = await accounts.sign_in(conn, state.settings.auth, form.get("token", ""), browser=True, peer=_peer(request))
    except AuthError:
        return sign_in_page.refused_page()
    assert known.cookie is not None
    answer = RedirectResponse(own_path(form.get("next"), _root(request)), 303, sign_in_page.HEADERS)
    _set_cookie(request, answer, known.cookie, state.settings.auth.session_hours * 3600)
    return answer


@router.post("/logout", status_code=204)
async def sign_out(request: Request, who: Annotated[Principal, Depends(signed_in())]) -> Response:
    """Ends the session, or the JWT, that the request was made with."""
    if isinstance(who.credential, int):
        raise Forbidden(f"an API token is not signed out: DELETE /auth/tokens/{who.credential} revokes it")
    async with state_of(request).connection() as conn, conn.transaction():
        await store.end_session(conn, who.credential)
        await record(conn, who.actor, "sign_out", who.email)
    answer = Response(status_code=204)
    if who.via == "session":
        _set_cookie(request, answer, "", 0)
    return answer


@router.get("/me")
async def me(request: Request, who: Annotated[Principal, Depends(signed_in())]) -> Me:
    """Who is signed in, and what they may do."""
    state = state_of(request)
    control = state.control.acting_as(who.actor)
    return Me(
        account_id=who.account_id,
        email=who.email,
        role=who.role,
        via=who.via,
        scopes=None if who.scopes is None else sorted(who.scopes),
        may=[operation for operation in DEFAULT if control.may(operation)],
        app=state.app.name,
        apps=sorted(state.app.included),
        environment=state.settings.app.env,
        version=rota.__version__,
    )


async def _mail(state: State, email: str, token: str, next: str | None, peer: str) -> None:
    base = configured_url(state.settings)
    link = accounts.link_url(base, token, next=next)
    api_link = accounts.link_url(base, token, path=accounts.VERIFY_PATH)
    minutes = state.settings.auth.link_minutes
    state.outbox.send(sign_in_mail(email, token, link=link, api_link=api_link, minutes=minutes))
    # Counted, not written now: a client must not notice by the time of its next request whether an address is known.
    state.refusals.note(Refusal(None, email, "none", None, "sign_in.link", email, 200, peer))


def _set_cookie(request: Request, answer: Response, value: str, seconds: int) -> None:
    answer.set_cookie(
        cookie_name(request), value, max_age=seconds, path="/", secure=is_https(request), httponly=True, samesite="lax"
    )


def _root(request: Request) -> str:
    """The path below which people see this server."""
    path: str = request.scope.get("root_path", "")
    return path.rstrip("/")


def _peer(request: Request) -> str:
    """Name the computer that the request comes from."""
    return peer_of(request.client.host) if request.client else "nowhere"


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form, the first of each name."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise UsageError("the body must be a form, with `Content-Type: application/x-www-form-urlencoded`")
    body = await request.body()
    if len(body) > MAX_FORM_BYTES:
        raise UsageError(f"the form is {len(body)} bytes long: at most {MAX_FORM_BYTES}")
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=10, errors="strict")
    except ValueError:
        raise UsageError("the form cannot be read: it has a token, and a path to go to") from None
    return {name: values[0] for name, values in fields.items()}
