"""Each test has a log on a file of its own."""

from support.own_log import log

__all__ = ["log"]
