"""Helpers for the clients people use. Import the module you need; none is imported with effectlog itself.

``failures``: exception groups for ``not_applied=`` and ``final=``. ``httpx``, ``requests``, ``stripe`` and
``smtp``: let a client carry the operation id of the current effect by itself.
"""
