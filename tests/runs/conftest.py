"""A store for several processes, and a log that is opened on it here."""

from support.field import field, log

__all__ = ["field", "log"]
