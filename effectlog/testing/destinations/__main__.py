"""``python -m effectlog.testing.destinations``: one simulated destination in a process of its own."""

from effectlog.testing.destinations.server import main

main()
