"""How one operation is distinguished from another: bound arguments, keys, fingerprints and ids.

Keys are text for people and for the destination; fingerprints tell apart what a key leaves out. Nothing
here reads or writes the journal. The invariant: the same call has the same key, fingerprints and
operation id in every process, for every hash seed, or is refused.
"""

from __future__ import annotations

from effectlog.keys.binder import Binder, signature_of
from effectlog.keys.identity import differing, fingerprints, new_run_id, operation_id
from effectlog.keys.seals import OtherSecretError, Seals, seals_of, shown
from effectlog.keys.template import MAX_KEY_LENGTH, KeyTemplate
from effectlog.validation import check_name

__all__ = [
    "MAX_KEY_LENGTH",
    "Binder",
    "KeyTemplate",
    "OtherSecretError",
    "Seals",
    "check_name",
    "differing",
    "fingerprints",
    "new_run_id",
    "operation_id",
    "seals_of",
    "shown",
    "signature_of",
]
