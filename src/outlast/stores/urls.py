"""URLs of stores, as they may be shown. Layer: stores."""

from __future__ import annotations

__all__ = ["without_password"]


def without_password(url: str) -> str:
    """The URL as people and logs may see it: a user's name stays, what proves it does not."""
    scheme, separator, rest = url.partition("://")
    location, question, query = rest.partition("?")
    user, at, place = location.rpartition("@")
    if location.startswith("/"):  # a path, in which all of these may be
        user, at, place = "", "", location
    kept = "&".join(each for each in query.split("&") if not each.lower().startswith("password="))
    return f"{scheme}{separator}{user.partition(':')[0]}{at}{place}{question if kept else ''}{kept}"
