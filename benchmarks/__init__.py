"""What effectlog does under interruption and under load, measured beside what the machine itself can do."""
