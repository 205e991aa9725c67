"""A claim's whole life: the claim loop, the owner's heartbeat, an attempt's execution and end, takeovers."""
