"""The thread that owns the store: it commits what callers hand in as batches, and returns their outcomes."""
