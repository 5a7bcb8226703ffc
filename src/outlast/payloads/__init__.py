"""Payloads: users' values on their way into the store and back, compressed, encrypted, or as they are. Layer: payloads.

Inside a process values are plain JSON: bodies, replays and comparisons never see anything else. On their way into the
store they pass through the app's codecs (`codec`, `encryption`), and lie there in a wrapper (`wrapper`) that names what
was done to them. So a store may hold payloads of every kind beside each other, and whoever has the keys reads them all.
"""

from __future__ import annotations

from outlast.payloads.codec import Codec, Compress
from outlast.payloads.encryption import Encrypt
from outlast.payloads.sealed import Sealed
from outlast.payloads.sealing import Payloads
from outlast.payloads.store import (
    UNREADABLE,
    open_definition,
    problems_of,
    seal_progress,
    show_definition,
    with_payloads,
)

__all__ = [
    "UNREADABLE",
    "Codec",
    "Compress",
    "Encrypt",
    "Payloads",
    "Sealed",
    "open_definition",
    "problems_of",
    "seal_progress",
    "show_definition",
    "with_payloads",
]
