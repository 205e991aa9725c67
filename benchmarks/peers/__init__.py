"""The same work on other libraries that run embedded on SQLite, with what each of them guarantees said beside it.

A figure without its guarantee compares nothing: what is cheap is often what is not kept. Their packages are
optional; whichever is missing is named. Each peer runs in a process of its own.
"""
