"""The pytest plugin: fixtures, found by pytest wherever outlast is installed. Layer: testing.

What always holds: nothing of outlast's engine is loaded before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from outlast.app import Outlast
    from outlast.testing.lab import Lab
    from outlast.testing.ledger import Ledger

__all__ = ["outlast_lab", "outlast_ledger", "pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """The contract of stores marks those of its tests that take over a second."""
    config.addinivalue_line("markers", "slow: takes over a second")


@pytest.fixture
def outlast_ledger() -> Iterator[Ledger]:
    """What the steps of all labs of this test did. When it is over, no attempt may have been carried out twice."""
    from outlast.testing.ledger import Ledger

    ledger = Ledger()
    yield ledger
    ledger.check()


@pytest.fixture
def outlast_lab(outlast_ledger: Ledger) -> Callable[[Outlast], AbstractAsyncContextManager[Lab]]:
    """As `outlast.testing.running`, with `outlast_ledger`."""
    from outlast.testing.lab import running

    return lambda app: running(app, ledger=outlast_ledger)
