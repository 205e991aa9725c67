"""The ten scenarios of the failure window: what happens between an acceptance and its record.

A destination accepts a request, and the worker is killed, paused or told to go before the result is
stored. ``scenarios`` says what must come out, ``worker`` is the process that is interrupted, ``rig``
starts and signals processes, ``runner`` plays one scenario, ``analyzer`` reads the records that the runs left
behind. The destination is ``effectlog.testing.destinations`` in a process of its own.

The invariant: an interruption comes at a boundary that the worker itself reported, never after a guess at
how long something takes.
"""
