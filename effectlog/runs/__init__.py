"""What callers do with runs: make them, wait for them, read them, and decide about them.

``enqueue`` and ``emit`` make them, ``within`` in the caller's transaction; ``run`` and ``wait`` are the
handle; ``operations`` checks what callers ask, and ``administration`` does it; ``run_here`` executes one
in place.
"""
