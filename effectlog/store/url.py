"""What a PostgreSQL URL says: the address that people may see, and the options that are effectlog's own.

Pure. The invariant: no password ever leaves this module except inside ``dsn``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from effectlog.errors import ConfigurationError

SCHEMES = ("postgresql", "postgres")
_SECRETS = frozenset({"password", "sslpassword"})
_POOLERS = {"transaction": True, "none": False}
_HOST = re.compile(r"^(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]*)?$")
_SCHEMA_NAME = re.compile(r"^[a-z_][a-z0-9_]{0,47}$")


@dataclass(frozen=True, slots=True)
class PostgresUrl:
    """A parsed URL; ``pooled`` is None where the store has to find out by itself."""

    dsn: str = field(repr=False)
    name: str
    pooled: bool | None
    several_hosts: bool
    secrets: tuple[str, ...] = field(repr=False)

    def hide(self, text: str) -> str:
        """The text without this URL's passwords."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text.replace(self.dsn, self.name)


def parse_url(url: str) -> PostgresUrl:
    """Parse a ``postgresql://`` URL.

    ``?pooler=transaction`` says that a transaction pooler stands in between, ``?pooler=none`` that none
    does; without it the store looks. Everything else is the driver's (libpq's names). Raises
    ConfigurationError for another scheme or a malformed URL, without repeating it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _malformed() from None
    password = parts.password
    options = parse_qsl(parts.query, keep_blank_values=True)
    if parts.scheme not in SCHEMES:
        raise ConfigurationError("a PostgreSQL store needs a URL such as postgresql://user@host:5432/db")
    rest = [(key, value) for key, value in options if key != "pooler"]
    secrets = [value for key, value in options if key in _SECRETS]
    secrets += [password, unquote(password)] if password else []
    hosts = parts.netloc.rpartition("@")[2] or dict(options).get("host", "")
    # What is cut at the wrong place may be a password, and would be shown as an address.
    misplaced = "@" in parts.path or parts.fragment or any("@" in key for key, _ in options)
    if misplaced or not all(_HOST.match(host) for host in parts.netloc.rpartition("@")[2].split(",")):
        raise _malformed()
    user = f"{parts.username}@" if parts.username else ""
    return PostgresUrl(
        dsn=urlunsplit(parts._replace(query=urlencode(rest))),
        name=f"postgresql://{user}{hosts}{parts.path}",
        pooled=_pooled(dict(options).get("pooler")),
        several_hosts="," in hosts,
        secrets=tuple(secret for secret in secrets if secret),
    )


def _malformed() -> ConfigurationError:
    return ConfigurationError(
        "the PostgreSQL URL is malformed; write it as postgresql://user:password@host:5432/db, where / ? # @ "
        ": % and "
        "spaces in user and password are percent-encoded: urllib.parse.quote(password, safe='')"
    )


def _pooled(option: str | None) -> bool | None:
    if option is None:
        return None
    if option not in _POOLERS:
        raise ConfigurationError(f"the URL's pooler={option!r} is neither 'transaction' nor 'none'")
    return _POOLERS[option]


def checked_schema(schema: str) -> str:
    """The schema's name, if it needs no quoting; raises ConfigurationError otherwise."""
    if not _SCHEMA_NAME.match(schema):
        raise ConfigurationError(
            f"the PostgreSQL schema {schema!r} must be lower-case letters, digits and underscores, "
            f"48 characters at most"
        )
    return schema
