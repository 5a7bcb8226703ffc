"""For tests of workflows: a clock that skips, crashes at every commit, replays of old journals; and actors, whose steps
go over HTTP, for tests by workflows. Layer: testing.

A top layer: nothing of outlast imports it. What always holds: a lab touches no store but its own, and leaves nothing
behind; there is no global state.
"""

from outlast.testing.actors import Actor, Actors, Cast, RequestOptions
from outlast.testing.crashes import Explored, explore_crashes
from outlast.testing.exchange import HttpAnswer, HttpClient, Refused, Reply, Unreachable
from outlast.testing.faults import Faults, FaultyStore, faulty
from outlast.testing.lab import Lab, StandsStill, running
from outlast.testing.ledger import Effect, Ledger
from outlast.testing.replaying import Replayed, replay

__all__ = [
    "Actor",
    "Actors",
    "Cast",
    "Effect",
    "Explored",
    "Faults",
    "FaultyStore",
    "HttpAnswer",
    "HttpClient",
    "Lab",
    "Ledger",
    "Refused",
    "Replayed",
    "Reply",
    "RequestOptions",
    "StandsStill",
    "Unreachable",
    "explore_crashes",
    "faulty",
    "replay",
    "running",
]
