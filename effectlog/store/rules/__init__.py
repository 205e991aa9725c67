"""The rules of ownership and of effects, applied to rows inside a store's transaction.

Pure: rows and commands go in, changed rows and outcomes come out. Every store loads what
``needs`` names, lets ``execute`` decide, and writes what the ledger marked; so the rules exist once.
"""
