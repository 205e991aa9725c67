"""Says why an attempt lost its run: what went wrong is looked for where it happened."""

from __future__ import annotations


def why_lost(lease: float, *, paused_for: float, in_time: bool, store: str) -> str:
    """A clause for people.

    Args:
        lease: its seconds.
        paused_for: seconds for which the process stood still meanwhile.
        in_time: it was lost before the lease was over by the owner's own clock.
        store: what kept the store from renewing the lease, if anything is known to have.
    """
    span = f"the lease of {lease:g} s"
    if paused_for:
        return f"the process stood still for {paused_for:.1f} s, and others trust it no longer than {span}"
    if in_time:
        return f"it was cancelled or retried by force, or others could take it for dead, within {span}"
    if store:
        return f"{span} ran out because the store did not renew it ({store})"
    return f"the process was stopped, or its loop or the interpreter lock was held for longer than {span}"
