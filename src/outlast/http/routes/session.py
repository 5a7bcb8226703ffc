"""Routes about who asks; and sessions, for browsers, which cannot send a header with every request. Layer: http.

A session is a cookie that stands for the token. What always holds: scripts cannot read it, browsers send it to this
path of this site alone and never from a page of another, and it ends with its token or after some hours.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from outlast.http.access import COOKIE, SESSION_S, TokenAccess
from outlast.http.refusals import MethodNotAllowed, NotSignedIn
from outlast.http.route import Call, Nothing, Reply
from outlast.http.shapes import Session, SignIn

__all__ = ["get_session", "sign_in", "sign_out"]


async def get_session(call: Call[Nothing, Nothing]) -> Session:
    """Who asks, and how this server knows: `token`, `hook` (the host's own way), or `open`. Needs nobody signed in."""
    caller = call.identified
    return Session(
        mode=cast(Literal["open", "token", "hook"], call.access.mode),
        is_signed_in=caller is not None,
        user=None if caller is None else caller.id,
        scopes=[] if caller is None else sorted(caller.scopes),
    )


async def sign_in(call: Call[Nothing, SignIn]) -> Reply[None]:
    """Begin a session, with the token: for browsers, by a cookie that lasts 12 hours."""
    access = _token_access(call)
    if not access.is_token(call.body.token):
        raise NotSignedIn("/api/v1/session")
    return Reply(None, 204, {"set-cookie": _cookie(call, access.make_session(), SESSION_S)})


async def sign_out(call: Call[Nothing, Nothing]) -> Reply[None]:
    """End the session in this browser."""
    _token_access(call)
    return Reply(None, 204, {"set-cookie": _cookie(call, "", 0)})


def _token_access(call: Call[Any, Any]) -> TokenAccess:
    if not isinstance(call.access, TokenAccess):
        raise MethodNotAllowed("this: it has no token", "/api/v1/session", "GET")
    return call.access


def _cookie(call: Call[Any, Any], value: str, age_s: int) -> str:
    secure = "; Secure" if call.is_secure else ""
    return f"{COOKIE}={value}; Path={call.root or ''}/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"
