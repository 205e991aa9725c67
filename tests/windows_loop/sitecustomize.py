"""Takes from asyncio's loop, in every interpreter that finds this folder on its path, what Windows' loop has not.

``PYTHONPATH=tests/windows_loop pytest …`` runs tests, and the processes that they start, as if there.
"""

import asyncio


def _missing(self: asyncio.AbstractEventLoop, *arguments: object) -> None:
    raise NotImplementedError


for name in (
    "add_signal_handler",
    "remove_signal_handler",
    "add_reader",
    "remove_reader",
    "add_writer",
    "remove_writer",
):
    setattr(asyncio.SelectorEventLoop, name, _missing)
