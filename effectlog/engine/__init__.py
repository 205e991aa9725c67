"""The thread that owns the store: what is handed in becomes batches, and their outcomes go back to who waits."""
