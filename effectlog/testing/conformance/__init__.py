"""The conformance suite: everything that effectlog relies on in a store, one named guarantee each.

    report = await check_store(open_my_store)
    report.raise_if_failed()

It needs no test framework and works on a store in use: all it makes has random names, is claimed
by nobody else, and is removed at the end. (One subscription, to an event that nobody emits, stays.)
"""

from effectlog.testing.conformance.check import GUARANTEES, check_store
from effectlog.testing.conformance.report import Failure, Report, StoreNotConformant

__all__ = ["GUARANTEES", "Failure", "Report", "StoreNotConformant", "check_store"]
