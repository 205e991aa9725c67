"""One claimed execution of a run: its journal, its lease, its effects in flight, and why it is stopping."""
