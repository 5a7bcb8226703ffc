"""The contract of stores, for whoever writes one: all that `Store` promises, as tests (SPEC K4). Layer: testing.

Needs pytest and pytest-asyncio. The stores of outlast itself are held to it by this same door.
"""

from outlast.testing.stores.clocks import Clock, MovedClock
from outlast.testing.stores.contract import StoreContract

__all__ = ["Clock", "MovedClock", "StoreContract"]
