"""Contracts of well-known destinations."""
