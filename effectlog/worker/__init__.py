"""A claim's whole life: the claim loop, the owner and its heartbeat, executing an attempt, its outcome, takeovers."""
