"""Who asks, and what they may see (SPEC A2). Layer: http.

Three ways, and one has to be chosen: a shared token, a hook of the host's that knows its users, or nobody is asked.
What always holds: without a choice nothing is served; secrets are compared in constant time; and a run that has an
owner is there for its owner and for admins alone: to others it does not exist.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import time
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import msgspec

from outlast.core.keys import check_name
from outlast.errors import InvalidSetting
from outlast.http.refusals import NotAllowed

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

__all__ = ["ADMIN", "AUTHOR", "METRICS", "Access", "AuthHook", "Caller", "SignedIn", "TokenAccess", "make_access"]

ADMIN = "admin"
"""The scope that sees and steers the runs of all."""
AUTHOR = "author"
"""The scope that stores graphs as drafts, which an admin activates: for a program that writes them."""
METRICS = "metrics"
"""The scope that reads the server's metrics. Who has no other, a scraper, is let in there and nowhere else."""
SHORTEST_TOKEN = 16
SESSION_S = 12 * 3600
COOKIE = "outlast_session"


class SignedIn(Protocol):
    """What an auth hook answers with: `outlast.User`, or what looks like it."""

    @property
    def id(self) -> str:
        """Who it is; runs they start are theirs."""
        ...

    @property
    def scopes(self) -> Collection[str]:
        """What they may: `admin`, and those that approvals ask for."""
        ...


AuthHook: TypeAlias = Callable[["HTTPConnection"], Awaitable[SignedIn | None] | SignedIn | None]
"""Gets Starlette's view of the request (headers, cookies …); None: nobody is signed in."""


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request."""

    id: str | None
    """None: whoever has the token, or anybody at all."""
    scopes: frozenset[str]
    by_cookie: bool = False
    """A browser sent what identifies them by itself, so that a page of another site could have made it."""

    @property
    def is_admin(self) -> bool:
        """Whether the runs of all are theirs to see."""
        return ADMIN in self.scopes

    @property
    def name(self) -> str:
        """For messages."""
        return self.id if self.id is not None else "(no name)"

    def may_see(self, owner: str | None) -> bool:
        """Whether a run with this owner is there for them."""
        return owner is None or self.is_admin or owner == self.id

    def check_scope(self, scopes: Collection[str], what: str) -> None:
        """Whether they may ask a route for these scopes. Raises NotAllowed."""
        if scopes and self.scopes.isdisjoint(scopes):
            raise NotAllowed(self.name, what, f"the scope {' or '.join(map(repr, scopes))}")
        if self.scopes == frozenset({METRICS}) and METRICS not in scopes:
            raise NotAllowed(self.name, what, f"more than the scope {METRICS!r}")


class Access(Protocol):
    """One way to know who asks."""

    mode: ClassVar[str]

    async def identify(self, request: HTTPConnection) -> Caller | None:
        """Who sent this; None: nobody known."""
        ...


class OpenAccess:
    """Nobody is asked: whoever reaches the server may do everything."""

    mode: ClassVar[str] = "open"

    async def identify(self, request: HTTPConnection) -> Caller | None:  # noqa: ARG002
        """Anybody."""
        return Caller(None, frozenset({ADMIN}))


class TokenAccess:
    """A token that all who may do everything share: in the header, or once, for a session in a browser."""

    mode: ClassVar[str] = "token"

    def __init__(self, token: object, now_s: Callable[[], float] = time.time) -> None:
        if not isinstance(token, str) or len(token.encode(errors="surrogatepass")) < SHORTEST_TOKEN:
            expected = f"text of at least {SHORTEST_TOKEN} bytes, such as secrets.token_urlsafe() gives"
            raise InvalidSetting("token", "(hidden)", expected)
        self._token = _digest(token)
        self._key = hashlib.sha256(b"outlast session\0" + self._token).digest()
        self._now_s = now_s

    async def identify(self, request: HTTPConnection) -> Caller | None:
        """Who has the token, or a session made with it."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return Caller(None, frozenset({ADMIN})) if self.is_token(given.strip()) else None
        if self._is_session(request.cookies.get(COOKIE, "")):
            return Caller(None, frozenset({ADMIN}), by_cookie=True)
        return None

    def is_token(self, given: str) -> bool:
        """In a time that says nothing of the token."""
        return hmac.compare_digest(_digest(given), self._token)

    def make_session(self) -> str:
        """The value of a cookie that stands for the token, for a while. Another token ends all sessions."""
        until = str(int(self._now_s()) + SESSION_S)
        return f"{until}.{self._sign(until)}"

    def _is_session(self, value: str) -> bool:
        until, _, signature = value.partition(".")
        is_signed = hmac.compare_digest(signature.encode(errors="replace"), self._sign(until).encode())
        return is_signed and int(until) > self._now_s()

    def _sign(self, until: str) -> str:
        return hmac.new(self._key, until.encode(errors="replace"), "sha256").hexdigest()


class HookAccess:
    """The host knows its users."""

    mode: ClassVar[str] = "hook"

    def __init__(self, hook: AuthHook) -> None:
        if not callable(hook):
            raise InvalidSetting("auth", hook, "a function that takes the request and gives a User or None")
        self._hook = hook

    async def identify(self, request: HTTPConnection) -> Caller | None:
        """Who the hook says it is. Raises what it raises; a PermissionError as NotAllowed."""
        try:
            found = self._hook(request)
            user = await found if inspect.isawaitable(found) else found
        except PermissionError as error:
            raise NotAllowed("(unknown)", request.scope["path"][:200], str(error) or "another user") from error
        if user is None or not user.id:
            return None
        by_cookie = "cookie" in request.headers and "authorization" not in request.headers
        return Caller(check_name("user", user.id), frozenset(map(str, user.scopes)), by_cookie)


def _digest(text: str) -> bytes:
    """Of one length for all, so that comparing takes the same time for all."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def make_access(token: str | None, auth: AuthHook | None, no_auth: bool) -> Access:
    """The one way that was chosen. Raises InvalidSetting for none, and for two."""
    chosen = [name for name, is_given in _given(token, auth, no_auth) if is_given]
    if len(chosen) != 1:
        expected = "one of token=, auth= and no_auth=True: nothing is open by default"
        raise InvalidSetting("app.asgi()", ", ".join(chosen) or "no way to know who asks", expected)
    if token is not None:
        return TokenAccess(token)
    return OpenAccess() if auth is None else HookAccess(auth)


def _given(token: str | None, auth: AuthHook | None, no_auth: bool) -> list[tuple[str, bool]]:
    return [("token=", token is not None), ("auth=", auth is not None), ("no_auth=True", no_auth)]
