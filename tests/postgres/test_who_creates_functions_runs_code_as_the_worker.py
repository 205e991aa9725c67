"""Whoever may create functions in ``public`` (everybody, up to PostgreSQL 14) must not choose what effectlog's statements call.

Every call that the attacker's functions and operators get is counted by the server itself.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
import shop
from support.postgres_commands import psql

from effectlog import EffectLog, current_transaction, durable_task, effect
from effectlog.store.postgres import caller_transaction as postgres_within
from effectlog.store.postgres import effect_transaction as postgres_effects
from effectlog.store.postgres.schema import statements_for
from effectlog.store.statements import migrations, statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GRAMMAR = {
    "all", "and", "any", "as", "between", "bigint", "by", "cast", "check", "coalesce", "conflict", "exists", "extract",
    "from", "greatest", "in", "key", "lateral", "least", "materialized", "not", "on", "operator", "or", "over", "select", "set", "unique", "using",
    "values", "where", "with",
}  # fmt: skip
"""Words before a parenthesis that name no function, or one that no schema can redefine."""
CALLERS = (
    "add_writer",
    "effect_settings",
    "existing_runs",
    "insert_attempt",
    "insert_key",
    "insert_run",
    "load_effects",
    "load_keys",
    "load_unsettled",
    "lock_runs",
    "notify",
    "remove_writer",
    "save_effect",
    "see_runs",
    "standby_names_length",
    "update_run",
)
"""Statements that run on a connection of the caller's, or of an effect's, under its search_path."""
BARE_OPERATOR = re.compile(
    r"(?<!\.)(?<![<>=*/+&|-])(?:<>|<=|>=|>>|[<>/+&|]|-(?!-))(?!=)|\b(?:NOT )?(?:IN|LIKE|BETWEEN)\b(?! *MATERIALIZED)"
)


def _without_comments(text: str) -> str:
    return re.sub(r"'[^']*'", "''", re.sub(r"--.*", "", text))


@pytest.mark.parametrize("name", statements("postgres"))
def test_every_statement_names_the_schema_of_its_functions_and_the_type_of_its_parameters(name: str) -> None:
    text = _without_comments(statements_for("s")[name])
    assert _functions_by_name_alone(text) == []
    assert re.findall(r"\$\d+(?!\d|::)", text) == []
    assert re.findall(r"::(?!pg_catalog\.|bigint|boolean|integer)\w+", text) == []
    assert re.findall(r"(?:FROM|JOIN) (?:pg_(?!catalog\.))\w+", text) == []


@pytest.mark.parametrize("script", [script for _, _, script in migrations("postgres")])
def test_every_migration_does(script: str) -> None:
    assert _functions_by_name_alone(_without_comments(script.replace("{schema}", "s"))) == []


def _functions_by_name_alone(text: str) -> list[str]:
    # A name after AS or INTO, and one with a schema of ours, is that of a list of columns.
    text = re.sub(r"\b(?:AS|INTO|ON|TABLE|WITH|EXISTS|CONSTRAINT) +[\w.]+ *\(", "; (", text)
    text = re.sub(r"\bunnest\(\s*\$\d+::[\w.]+\[\],", "; (", text)  # Of several arrays: grammar.
    found = re.findall(r"(?<![\w.])([A-Za-z_]\w*) ?\(", text)
    return [word for word in found if word.lower() not in GRAMMAR]


@pytest.mark.parametrize("name", CALLERS)
def test_what_runs_on_a_callers_connection_names_the_schema_of_its_operators(name: str) -> None:
    text = _without_comments(statements_for("s")[name])
    conditions = re.sub(r"DO UPDATE SET.*|\bSET\b.*?(?=\bFROM\b)", "", text, flags=re.DOTALL)
    conditions = conditions.replace("OPERATOR(pg_catalog.=)", "").replace("(*)", "")
    assert "=" not in conditions
    assert BARE_OPERATOR.findall(re.sub(r"\$\d+", "", conditions)) == []


CAUGHT = "CREATE SCHEMA IF NOT EXISTS public; GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC;"
ATTACK = """
CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE plpgsql AS
    'BEGIN RETURN QUERY SELECT * FROM pg_catalog.unnest($1); END';
CREATE FUNCTION public.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS
    'BEGIN RETURN QUERY SELECT * FROM pg_catalog.unnest($1); END';
CREATE FUNCTION public.unnest(text[], text[]) RETURNS TABLE (a text, b text) LANGUAGE plpgsql AS
    'BEGIN RETURN QUERY SELECT * FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)); END';
CREATE FUNCTION public.pg_try_advisory_lock(float8) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
CREATE FUNCTION public.pg_advisory_unlock(float8) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
-- The server counts no calls of an aggregate, but those that it makes.
CREATE FUNCTION public.caught_aggregate() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
CREATE FUNCTION public.caught_max(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN PERFORM public.caught_aggregate(); RETURN greatest($1, $2); END';
CREATE AGGREGATE public.max(bigint) (SFUNC = public.caught_max, STYPE = bigint);
CREATE FUNCTION public.caught_min(float8, float8) RETURNS float8 LANGUAGE plpgsql AS
    'BEGIN PERFORM public.caught_aggregate(); RETURN least($1, $2); END';
CREATE AGGREGATE public.min(float8) (SFUNC = public.caught_min, STYPE = float8);
CREATE FUNCTION public.caught_count(bigint) RETURNS bigint LANGUAGE plpgsql AS
    'BEGIN PERFORM public.caught_aggregate(); RETURN $1 OPERATOR(pg_catalog.+) 1; END';
CREATE AGGREGATE public.count(*) (SFUNC = public.caught_count, STYPE = bigint, INITCOND = '0');
CREATE FUNCTION public.caught_any(boolean, boolean) RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN PERFORM public.caught_aggregate(); RETURN coalesce($1, false) OR $2; END';
CREATE AGGREGATE public.bool_or(boolean) (SFUNC = public.caught_any, STYPE = boolean);
CREATE FUNCTION public.caught_sum(float8, bigint) RETURNS float8 LANGUAGE plpgsql AS
    'BEGIN PERFORM public.caught_aggregate(); RETURN 0; END';
CREATE AGGREGATE public.sum(bigint) (SFUNC = public.caught_sum, STYPE = float8, INITCOND = '0');
DO $do$
DECLARE found record;
BEGIN
    FOR found IN
        SELECT p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid) AS args, p.prorettype::regtype AS result,
               pg_catalog.array_to_string(ARRAY(SELECT '$' || n FROM generate_series(1, p.pronargs) AS n), ', ') AS given
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY(%(functions)s)
          AND p.prokind = 'f' AND NOT p.proretset AND p.provariadic = 0 AND p.prorettype <> 'void'::regtype
          AND NOT p.prorettype = ANY(ARRAY['anyelement', 'anyarray', 'internal']::regtype[])
          AND NOT 'internal'::regtype = ANY(p.proargtypes)
    LOOP
        EXECUTE format('CREATE FUNCTION public.%%I(%%s) RETURNS %%s LANGUAGE plpgsql AS %%L', found.proname,
            regexp_replace(found.args, '\\m(secs|years|months|weeks|days|hours|mins) ', '\\1 ', 'g'),
            found.result, format('BEGIN RETURN pg_catalog.%%I(%%s); END', found.proname, found.given));
    END LOOP;
    FOR found IN
        SELECT o.oid, o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result
        FROM pg_catalog.pg_operator AS o
        WHERE o.oprname = ANY(ARRAY['=', '<>', '<', '<=', '>', '>=', '+', '-', '/', '&', '>>', '~~'])
          AND o.oprleft = ANY(ARRAY['text', 'bigint', 'integer', 'float8', 'boolean', 'name']::regtype[])
          AND o.oprright = ANY(ARRAY['text', 'bigint', 'integer', 'float8', 'boolean', 'name']::regtype[])
    LOOP
        EXECUTE format('CREATE FUNCTION public.caught_%%s(%%s, %%s) RETURNS %%s LANGUAGE plpgsql AS %%L', found.oid,
            found.l, found.r, found.result, format('BEGIN RETURN $1 OPERATOR(pg_catalog.%%s) $2; END', found.oprname));
        EXECUTE format('CREATE OPERATOR public.%%s (LEFTARG = %%s, RIGHTARG = %%s, FUNCTION = public.caught_%%s)',
            found.oprname, found.l, found.r, found.oid);
    END LOOP;
END $do$;
CREATE DOMAIN public.float8 AS double precision CHECK (public.caught_count(1) OPERATOR(pg_catalog.>) 0);
"""


@pytest.fixture
async def attacked(postgres_database: str) -> AsyncIterator[str]:
    """A database in which somebody without rights overloaded what effectlog calls, under the worst search_path."""
    role = f"mallory_{uuid.uuid4().hex[:12]}"
    used = sorted(
        {
            name
            for text in statements("postgres").values()
            for name in re.findall(r"pg_catalog\.(\w+)\(", text)
        }
    )
    name = urlsplit(postgres_database).path[1:]
    async with psql(postgres_database) as owner:
        await owner.execute(f"CREATE ROLE {role} LOGIN; {CAUGHT}")
        await owner.execute(f"SET ROLE {role}")
        functions = "ARRAY[" + ", ".join(f"'{one}'" for one in used) + "]"
        await owner.execute(ATTACK % {"functions": functions})
        await owner.execute("RESET ROLE")
        await owner.execute(f"ALTER DATABASE {name} SET track_functions = 'all'")
        await owner.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
        yield postgres_database
        await owner.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


async def _caught(url: str) -> list[str]:
    """The attacker's functions that were called, once every other session has ended and told the server."""
    async with psql(url) as owner:
        await owner.execute("SET search_path = pg_catalog; SET track_functions = 'none'")
        for _ in range(500):
            if await owner.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
                "pg_backend_pid() AND backend_type = 'client backend' AND application_name LIKE 'effectlog%'"
            ):
                await asyncio.sleep(0.01)
        return [row[0] for row in await owner.fetch("SELECT funcname FROM pg_stat_user_functions ORDER BY 1")]


@effect(key="path", transactional=True)
async def search_path() -> str:
    path: str = await current_transaction().fetchval("SHOW search_path")
    return path


@durable_task
async def look() -> str:
    return await search_path()


async def test_the_attack_is_one(attacked: str) -> None:
    async with psql(attacked) as victim:
        await victim.fetch("SELECT * FROM unnest(ARRAY['a'::text]) AS u(x) WHERE x = 'a'")
        await victim.fetch("SELECT pg_try_advisory_lock(1::float8), max(1::bigint), 1::float8")
    caught = await _caught(attacked)
    assert {"unnest", "pg_try_advisory_lock", "caught_aggregate", "caught_count"} <= set(caught)


async def test_no_command_calls_any_of_it(attacked: str) -> None:
    command = [sys.executable, "-m", "effectlog"]
    for args in (["migrate"], ["runs"], ["doctor"]):
        done = subprocess.run(
            [*command, *args, "--store", attacked], capture_output=True, text=True, timeout=50, check=False
        )
        assert done.returncode == 0, done.stderr
    assert await _caught(attacked) == []


@pytest.mark.parametrize("pooler", ["none", "transaction"])
async def test_no_log_calls_any_of_it_and_effects_and_callers_keep_their_path(
    attacked: str, pooler: str
) -> None:
    async with EffectLog(f"{attacked}?pooler={pooler}") as log:
        run = await log.enqueue(shop.sell.with_options(idempotency_key="a"), "a")
        async with log.worker():
            assert await run.result(timeout=30) == "charge of a"
            assert await log.run(look) == "public, pg_catalog"
        async with await psycopg.AsyncConnection.connect(attacked) as connection:
            await log.within(connection).enqueue(shop.sell, "b")
            path = await (await connection.execute("SHOW search_path")).fetchone()
            assert path == ("public, pg_catalog",)
        await log.cancel_runs(state="pending")
        assert len(await log.list_runs()) == 3
        assert (await (await log.get_run(run.id)).record()).result == "charge of a"
        await log.purge(0)
    assert await _caught(attacked) == []


def test_the_list_of_callers_statements_is_whole() -> None:
    """What these modules name by themselves.

    The rest of the list is what creating runs and finishing an effect needs.
    """
    for module in (postgres_within, postgres_effects):
        assert module.__file__ is not None
        with open(module.__file__, encoding="utf-8") as file:  # noqa: PTH123
            assert set(re.findall(r'sql\["(\w+)"\]', file.read())) <= set(CALLERS)
