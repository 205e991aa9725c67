"""One claimed execution of a run: its journal, its lease, the effects in flight, and why it takes nothing more."""
