"""One effect call inside an attempt: replay, doubt, the *started* record, the request, and its outcome.

``call`` is the flow. It is written once, as a generator of operations, which ``driver`` runs for sync and for
async functions alike.
"""
