"""Where runs are kept.

A store applies batches of commands in one transaction each; beside that it only reads.

``protocol`` says what a store must offer, ``commands`` and ``rows`` are what goes in and comes out. What a
command does, and when it is refused, stands once in ``rules``; ``sqlite`` and ``postgres`` load rows, let the
rules decide, and write back. ``resolve`` turns a path or URL into a store, ``probe`` checks at open that it
enforces ownership.
"""
