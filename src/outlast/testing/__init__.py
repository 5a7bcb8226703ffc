"""For tests of workflows: a clock that skips, crashes at every commit, replays of old journals. Layer: testing.

A top layer: nothing of outlast imports it. What always holds: a lab touches no store but its own, and leaves nothing
behind; there is no global state.
"""

from outlast.testing.crashes import Explored, explore_crashes
from outlast.testing.lab import Lab, StandsStill, running
from outlast.testing.ledger import Effect, Ledger
from outlast.testing.replaying import Replayed, replay

__all__ = [
    "Effect",
    "Explored",
    "Lab",
    "Ledger",
    "Replayed",
    "StandsStill",
    "explore_crashes",
    "replay",
    "running",
]
