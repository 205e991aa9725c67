"""Simulated destinations for tests: one of each kind, over real HTTP, counting requests and effects apart.

::

    with CountingDestination("replay") as destination:
        destination.lose_next_answer()
        ...
        assert len(destination.requests()) == 2
        assert len(destination.effects()) == 1

Product code never imports this package.
"""

from effectlog.testing.destinations.behaviour import KINDS, Behaviour, Fault
from effectlog.testing.destinations.client import AnswerError, CountingDestination, send
from effectlog.testing.destinations.ledger import EffectSeen, RequestSeen
from effectlog.testing.destinations.server import DestinationServer

__all__ = [
    "KINDS",
    "AnswerError",
    "Behaviour",
    "CountingDestination",
    "DestinationServer",
    "EffectSeen",
    "Fault",
    "RequestSeen",
    "send",
]
