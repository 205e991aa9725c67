"""``@effect`` and ``@durable_task``: what is declared, checked at decoration, and kept for its executor."""
