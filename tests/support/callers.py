"""Each driver's way to open a transaction on a database, for callers that await and callers that block."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class RolledBackError(Exception):
    """What a caller raises to leave its transaction."""


INSERT = "INSERT INTO orders VALUES ('a', 1)"


def _alchemy(url: str, *, awaited: bool) -> str:
    if url.startswith("postgresql://"):
        return urlunsplit(urlsplit(url)._replace(scheme=f"postgresql+{'asyncpg' if awaited else 'psycopg'}"))
    return f"sqlite{'+aiosqlite' if awaited else ''}:///{url}"


@contextlib.asynccontextmanager
async def from_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(INSERT)
            yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def from_async_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(INSERT)
        yield connection


@contextlib.asynccontextmanager
async def from_aiosqlite(url: str) -> AsyncIterator[Any]:
    connection = await aiosqlite.connect(url)
    try:
        await connection.execute(INSERT)
        yield connection
        await connection.commit()
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def from_async_alchemy(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_alchemy(url, awaited=True), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(sqlalchemy.text(INSERT))
        yield connection


@contextlib.asynccontextmanager
async def from_async_session(url: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_alchemy(url, awaited=True), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(sqlalchemy.text(INSERT))
        yield session


@contextlib.contextmanager
def from_psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        connection.execute(INSERT)
        yield connection


@contextlib.contextmanager
def from_sqlite3(url: str) -> Iterator[Any]:
    connection = sqlite3.connect(url)
    connection.row_factory = lambda _, row: {"row": row}
    connection.text_factory = bytes
    try:
        with connection:
            connection.execute(INSERT)
            yield connection
        assert connection.text_factory is bytes
    finally:
        connection.close()


@contextlib.contextmanager
def from_sqlite3_alone(url: str) -> Iterator[Any]:
    """The first write is ours, with which the driver begins by itself."""
    connection = sqlite3.connect(url)
    try:
        with connection:
            yield connection
            connection.execute(INSERT)
    finally:
        connection.close()


@contextlib.contextmanager
def from_sqlite3_by_hand(url: str) -> Iterator[Any]:
    connection = sqlite3.connect(url, isolation_level=None)
    try:
        connection.execute("BEGIN")
        connection.execute(INSERT)
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()


@contextlib.contextmanager
def from_alchemy(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_alchemy(url, awaited=False), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(INSERT))
        yield connection


@contextlib.contextmanager
def from_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_alchemy(url, awaited=False), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        session.execute(sqlalchemy.text(INSERT))
        yield session


ALCHEMY = {"awaited": [from_async_alchemy, from_async_session], "blocking": [from_alchemy, from_session]}
AWAITED = {
    "sqlite": [from_aiosqlite, *ALCHEMY["awaited"]],
    "postgres": [from_asyncpg, from_async_psycopg, *ALCHEMY["awaited"]],
}
BLOCKING = {
    "sqlite": [from_sqlite3, from_sqlite3_alone, from_sqlite3_by_hand, *ALCHEMY["blocking"]],
    "postgres": [from_psycopg, *ALCHEMY["blocking"]],
}
