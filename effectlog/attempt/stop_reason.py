"""Why an attempt takes nothing new any more."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why an attempt takes nothing new any more."""

    OVER = "its body is over"
    LOST = "its lease is lost"
    CANCELLED = "the run is being cancelled"
    RELEASED = "the worker gives it back"
    TIMED_OUT = "its timeout has passed"
    HELD = "an effect waits for a decision"
    UNABLE = "this process can't go on with it"
