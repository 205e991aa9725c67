"""What callers do with runs: make them, wait for them, read them, and decide about them."""
