"""Which stores a test is run on. Most go by those that cost nothing; where the store itself matters, by PostgreSQL too.

A fixture that asks for the fixture `url` has a store of each kind in turn, and `url` gives its URL.
"""

from __future__ import annotations

import pytest

__all__ = ["STORES", "between_processes", "everywhere"]

STORES = ("memory", "sqlite")
"""Where a test is run when it says nothing."""

everywhere = pytest.mark.parametrize("url", [*STORES, "postgres"], indirect=True)
"""A test that is run on PostgreSQL as well: what it holds is the store's affair."""

between_processes = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
"""A test of what several processes do at once."""
