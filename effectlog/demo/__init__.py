"""``effectlog demo``: kills a real worker at the worst moment, three times, and counts what arrived.

A destination and two workers run as processes of their own. It is a program on the public face and
the command line; the core knows nothing of it. The one invariant: it leaves neither process nor file.
"""

from __future__ import annotations


def run_demo() -> bool:
    """Play all three parts, print them, and say whether every count was as promised."""
    import asyncio  # noqa: PLC0415 - the demo's processes import this package too, and need none of this

    from effectlog.demo.runner import play_all  # noqa: PLC0415

    return asyncio.run(play_all())
