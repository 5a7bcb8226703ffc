"""Which site a request comes from, and by which name it came here. Layer: http.

Two attacks on people who have this server in reach: a page of another site has their browser send something (CSRF), or
gives its own name this server's address, and so becomes its site (DNS rebinding). What always holds: a request that
changes something was not made by another site's page; and a server that asks nobody who they are answers only to names
nobody can register.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from outlast.errors import InvalidSetting
from outlast.http.refusals import CrossSite, HostRefused

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from outlast.http.access import Caller

__all__ = ["LOOPBACK", "Sites", "is_loopback"]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PORTS = {"http": 80, "https": 443}
PRIVATE_DOMAINS = (".localhost", ".local", ".internal", ".test", ".home.arpa")
"""Reserved, so that no attacker can own a name in them (RFC 6761, 6762, 8375; .internal by ICANN)."""


class Sites:
    """What may send, and under which names this server is known."""

    def __init__(self, hosts: Collection[str] | None, origins: Collection[str], *, is_open: bool) -> None:
        """`hosts`: names without ports; None: any, but where `is_open` (nobody is asked) only unregistrable ones."""
        for name, given in (("hosts", hosts), ("origins", origins)):
            if isinstance(given, str):
                raise InvalidSetting(name, given, f"several, such as ({given!r},)")
        self._hosts = None if hosts is None else frozenset(host.lower().strip("[]") for host in hosts)
        self._origins = frozenset(map(_check_origin, origins))
        self._is_open = is_open

    def check_host(self, request: HTTPConnection) -> None:
        """Raises HostRefused."""
        if self._hosts is None and not self._is_open:
            return
        given = request.headers.getlist("host")
        name = _name_of(given[0]) if len(given) == 1 else None
        if name is not None and (_is_private(name) if self._hosts is None else name in self._hosts):
            return
        raise HostRefused(", ".join(given)[:200])

    def check_origin(self, request: HTTPConnection, method: str, caller: Caller | None) -> None:
        """Raises CrossSite for what changes something, and a page of another site sent."""
        if method in SAFE_METHODS:
            return
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "")
        if origin is not None:
            if not self._is_ours(origin, request.headers.get("host", "")):
                raise CrossSite(origin[:200])
        elif site not in {"", "same-origin", "none"}:
            raise CrossSite(f"unknown ({site[:20]})")
        elif not site and caller is not None and caller.by_cookie:
            raise CrossSite("not given, with a cookie")

    def _is_ours(self, origin: str, host: str) -> bool:
        """The scheme is not compared: in front of us TLS may have ended."""
        if origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            ours = urlsplit(f"{parts.scheme}://{host}")
            same = (parts.hostname, parts.port or PORTS.get(parts.scheme)) == (
                ours.hostname,
                ours.port or PORTS.get(parts.scheme),
            )
        except ValueError:
            return False
        return same and parts.hostname is not None and parts.scheme in PORTS


def _check_origin(origin: str) -> str:
    parts = urlsplit(origin)
    if parts.scheme not in PORTS or not parts.netloc or parts.path or parts.query:
        raise InvalidSetting("origins", origin, "scheme and host, such as https://console.example.org")
    return origin


def _name_of(host: str) -> str | None:
    """Without its port, in small letters."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.path == "" and parts.username is None else None


def _is_private(name: str) -> bool:
    if "." not in name or name.endswith(PRIVATE_DOMAINS):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
