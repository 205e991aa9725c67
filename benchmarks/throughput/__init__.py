"""How fast effectlog is, each figure beside what the store itself can do on this machine in the same minutes.

``floor`` is the store's own limit: the same driver, the same durability, nothing of effectlog. Wall time on a
shared machine says little alone, so every figure is measured in turn with its floor, several times, and comes
with the processor time it took.
"""
