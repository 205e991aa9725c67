"""Warnings given away from the caller's own frames: logged, and raised only as a warning."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from effectlog.errors import EffectLogWarning

logger = logging.getLogger("effectlog")


def warn(message: str, **extra: Any) -> None:
    """Log and warn. Where warnings are errors it still returns: no caller here could answer for it."""
    logger.warning("effectlog: %s", message, extra=extra)
    try:
        warnings.warn(message, EffectLogWarning, stacklevel=3)
    except EffectLogWarning:
        logger.debug("effectlog: the warning above was turned into an error", exc_info=True)
