"""A requests adapter that sends the operation id of the current effect by itself.

Invariant: a key header that is set already is left alone, and outside an effect nothing changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter

from effectlog.clients.key_header import key_header

if TYPE_CHECKING:
    from requests import PreparedRequest, Session


class EffectKeyAdapter(HTTPAdapter):
    """``session.mount("https://", EffectKeyAdapter())``; takes the arguments of ``HTTPAdapter``.

    Args:
        default_header: header for effects that declare no destination; none is sent without it.

    """

    def __init__(self, *arguments: Any, default_header: str | None = None, **options: Any) -> None:
        self._default_header = default_header
        super().__init__(*arguments, **options)

    def add_headers(self, request: PreparedRequest, **_: Any) -> None:
        header = key_header(self._default_header)
        if header is not None:
            request.headers.setdefault(*header)

    def __getstate__(self) -> dict[str, Any]:
        # The base class keeps only the attributes it lists, and a pickled session must not lose its header.
        inherited: Any = super().__getstate__()  # type: ignore[no-untyped-call,unused-ignore]
        return {**inherited, "_default_header": self._default_header}


def carry_key(session: Session, *, default_header: str | None = None) -> Session:
    """Mount the adapter for http and https, and return the session."""
    for prefix in ("https://", "http://"):
        session.mount(prefix, EffectKeyAdapter(default_header=default_header))
    return session
