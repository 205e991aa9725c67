"""What users test their own tasks, stores and effects with. Product code never imports this package."""

from effectlog.testing.clock import MovableClock
from effectlog.testing.conformance import check_store
from effectlog.testing.crash_matrix import crash_matrix, run_matrix
from effectlog.testing.crash_report import CrashReport, CrashResult, EffectCount
from effectlog.testing.destinations import CountingDestination

__all__ = [
    "CountingDestination",
    "CrashReport",
    "CrashResult",
    "EffectCount",
    "MovableClock",
    "check_store",
    "crash_matrix",
    "run_matrix",
]
