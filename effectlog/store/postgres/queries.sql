-- Who may create functions in a schema of the database must not choose what runs here. Our own connections look
-- names up in pg_catalog alone. Nothing relies on it: functions are named with their schema (unnest of several arrays
-- is grammar, and refuses one), and every parameter has its type. What also runs in a transaction of the caller's,
-- whose search_path is the caller's, names its operators with their schema as well.

-- include: run_columns
id, task, state, due_at, attempt, attempt_outcome, owner, lease_expires, lease_clock, releasing, errors, crashes,
       cancel_requested, finished_at, error_type, error_message, error_traceback

-- include: effect_columns
run_id, effect_key, name, operation_id, fingerprints, policy, state, version,
       generation, requests, open_requests, executing, attempt, first_wall, first_boot,
       first_boot_id, started_at, finished_at, final, result, result_error, error_type,
       error_message, error_traceback, destination, resolved_by, evidence, late_result,
       late_attempt

-- name: trust_catalog_alone
SET search_path TO pg_catalog;

-- name: schema_version
SELECT pg_catalog.max(number) FROM {schema}.migrations;

-- name: schema_exists
SELECT pg_catalog.to_regnamespace('{schema}') IS NOT NULL;

-- name: tables_exist
SELECT pg_catalog.to_regclass('{schema}.migrations') IS NOT NULL;

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: create_migrations
CREATE TABLE IF NOT EXISTS {schema}.migrations (
    number BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at DOUBLE PRECISION NOT NULL,
    mark TEXT
);

-- name: save_migration
INSERT INTO {schema}.migrations (number, name, applied_at)
VALUES ($1::bigint, $2::text, extract(epoch FROM pg_catalog.clock_timestamp())::float8);

-- name: advisory_locks
SELECT pg_catalog.pg_advisory_xact_lock(wanted.key)
FROM (SELECT key FROM pg_catalog.unnest($1::bigint[]) AS asked(key) ORDER BY key) AS wanted;

-- name: server_facts
SELECT pg_catalog.current_setting('server_version_num')::bigint AS version,
       pg_catalog.pg_is_in_recovery() AS standby,
       (SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'synchronous_commit') AS synchronous_commit,
       pg_catalog.current_setting('fsync') AS fsync,
       pg_catalog.current_setting('server_encoding') AS encoding,
       pg_catalog.current_setting('default_transaction_read_only') AS read_only;

-- name: transaction_facts
SELECT pg_catalog.pg_backend_pid() AS backend,
       pg_catalog.current_setting('synchronous_commit') AS synchronous_commit;

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL search_path TO pg_catalog;
SET LOCAL synchronous_commit TO on;
SET LOCAL lock_timeout TO '500ms';
SET LOCAL idle_in_transaction_session_timeout TO '6s';

-- name: begin_remote_apply
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL search_path TO pg_catalog;
SET LOCAL synchronous_commit TO remote_apply;
SET LOCAL lock_timeout TO '500ms';
SET LOCAL idle_in_transaction_session_timeout TO '6s';

-- name: standby_names_length
-- More than 0 where commits wait for a standby.
SELECT pg_catalog.length(pg_catalog.current_setting('synchronous_standby_names'));

-- name: effect_settings
-- A transaction that an effect writes in. It may wait for the effect's own rows, so no lock_timeout.
SELECT pg_catalog.set_config('synchronous_commit',
           CASE WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'remote_apply'
                THEN 'remote_apply' ELSE 'on' END, true),
       pg_catalog.set_config('idle_in_transaction_session_timeout', '60s', true);

-- name: end_backend
SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
WHERE pid = $1::integer AND application_name = $2::text AND usename = current_user;

-- name: count_standby_waits
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND wait_event = 'SyncRep';

-- name: end_stalled
-- 'ClientRead' also where a statement has merely been prepared, which no time-out of the server's looks at.
SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database() AND a.usename = current_user
  AND a.pid <> pg_catalog.pg_backend_pid()
  AND a.application_name = ANY($1::text[]) AND a.xact_start IS NOT NULL
  AND a.wait_event IN ('ClientRead', 'ClientWrite')
  AND a.state_change < pg_catalog.clock_timestamp()
      - pg_catalog.make_interval(secs => $2::float8
                                          + CASE a.wait_event WHEN 'ClientWrite' THEN $3::float8 ELSE 0 END)
  AND ($4::text[] IS NULL OR a.pid IN (
      SELECT l.pid FROM {schema}.runs AS r
      JOIN pg_catalog.pg_locks AS l ON l.transactionid = r.xmax AND l.granted
      WHERE r.id = ANY($4::text[]) AND l.locktype = 'transactionid'));

-- name: learn_types
VALUES ($1::text[], $2::bigint[], $3::float8[], $4::boolean[], $5::bytea[]);

-- name: add_writer
INSERT INTO {schema}.writers (id, batch, opened_at)
VALUES ($1::bigint, 0, extract(epoch FROM pg_catalog.clock_timestamp())::float8)
ON CONFLICT (id) DO NOTHING;

-- name: current_role
SELECT current_user;

-- name: missing_rights
-- What this role may not do with which table. Keys are never changed, and migrations are the migrator's.
SELECT c.relname, wanted.privilege
FROM pg_catalog.pg_class AS c CROSS JOIN pg_catalog.unnest($1::text[]) WITH ORDINALITY AS wanted(privilege, place)
WHERE c.relnamespace = pg_catalog.to_regnamespace('{schema}') AND c.relkind = 'r'
  AND c.relname IN ('attempts', 'effects', 'idempotency_keys', 'migrations', 'owners', 'runs', 'subscriptions',
                    'workers', 'writers')
  AND NOT (c.relname = 'migrations' AND wanted.privilege IN ('INSERT', 'DELETE'))
  AND NOT (c.relname = 'idempotency_keys' AND wanted.privilege = 'UPDATE')
  AND NOT pg_catalog.has_table_privilege(c.oid, wanted.privilege)
ORDER BY c.relname, wanted.place;

-- name: filtered_tables
-- Tables whose rows a policy may hide from this role or refuse: all but those that one opens to it without a condition.
SELECT c.relname, pg_catalog.string_agg(p.polname::text, ', ' ORDER BY p.polname)
FROM pg_catalog.pg_class AS c LEFT JOIN pg_catalog.pg_policy AS p ON p.polrelid = c.oid AND EXISTS (
    SELECT 1 FROM pg_catalog.unnest(p.polroles) AS granted(role)
    WHERE CASE WHEN role = 0 THEN TRUE ELSE pg_catalog.pg_has_role(role, 'USAGE') END)
WHERE c.relnamespace = pg_catalog.to_regnamespace('{schema}') AND c.relkind = 'r'
  AND c.relname IN ('attempts', 'effects', 'idempotency_keys', 'migrations', 'owners', 'runs', 'subscriptions',
                    'workers', 'writers')
  AND pg_catalog.row_security_active(c.oid)
GROUP BY c.relname
HAVING coalesce(pg_catalog.bool_or(NOT p.polpermissive), FALSE) OR NOT coalesce(pg_catalog.bool_or(
    p.polpermissive AND p.polcmd = '*' AND pg_catalog.pg_get_expr(p.polqual, p.polrelid) = 'true'
    AND coalesce(pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'), FALSE)
ORDER BY c.relname;

-- name: begin_plain
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL search_path TO pg_catalog;

-- name: begin_read
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL search_path TO pg_catalog;

-- name: commit
-- The division fails the transaction if this writer's number has moved on, so that a message that was
-- given up as lost can never commit late.
WITH mark AS (
    UPDATE {schema}.writers SET batch = {batch} WHERE id = {writer} AND batch = {batch} - 1 RETURNING 1
)
SELECT 1 / pg_catalog.count(*) FROM mark;
COMMIT;

-- name: give_up_batch
INSERT INTO {schema}.writers (id, batch, opened_at)
VALUES ($1::bigint, $2::bigint + 1, extract(epoch FROM pg_catalog.clock_timestamp())::float8)
ON CONFLICT (id) DO UPDATE SET batch = excluded.batch WHERE {schema}.writers.batch = $2::bigint - 1
RETURNING batch;

-- name: read_batch
SELECT batch FROM {schema}.writers WHERE id = $1::bigint;

-- name: remove_writer
DELETE FROM {schema}.writers WHERE id OPERATOR(pg_catalog.=) $1::bigint;

-- name: remove_old_writers
DELETE FROM {schema}.writers
WHERE opened_at < extract(epoch FROM pg_catalog.clock_timestamp())::float8 - $1::float8 RETURNING 1;

-- name: lock_runs
WITH locked AS MATERIALIZED (
    SELECT {run_columns}
    FROM {schema}.runs WHERE id OPERATOR(pg_catalog.=) ANY($1::text[]) ORDER BY id FOR UPDATE SKIP LOCKED
)
SELECT locked.*, extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS now
FROM (VALUES (1)) AS always LEFT JOIN locked ON TRUE;

-- name: see_runs
WITH seen AS MATERIALIZED (
    SELECT {run_columns}
    FROM {schema}.runs WHERE id OPERATOR(pg_catalog.=) ANY($1::text[])
)
SELECT seen.*, extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS now
FROM (VALUES (1)) AS always LEFT JOIN seen ON TRUE;

-- name: existing_runs
SELECT id FROM {schema}.runs WHERE id OPERATOR(pg_catalog.=) ANY($1::text[]);

-- name: load_runs
SELECT {run_columns}
FROM {schema}.runs WHERE id = ANY($1::text[]);

-- name: load_payloads
SELECT id, args, created_at, result, scope, idempotency_key, correlation_id, parent_id, event, depth, trace
FROM {schema}.runs WHERE id = ANY($1::text[]);

-- name: load_effects
SELECT {effect_columns}
FROM {schema}.effects
WHERE (run_id, effect_key) OPERATOR(pg_catalog.=) ANY (SELECT * FROM unnest($1::text[], $2::text[]));

-- name: load_unsettled
SELECT {effect_columns}
FROM {schema}.effects
WHERE state OPERATOR(pg_catalog.=) 'started' AND run_id OPERATOR(pg_catalog.=) ANY($1::text[]);

-- name: load_journal
SELECT {effect_columns}
FROM {schema}.effects WHERE run_id = ANY($1::text[])
ORDER BY run_id, started_at, effect_key COLLATE pg_catalog."C";

-- name: load_attempts
SELECT run_id, number, owner, worker, started_at, ended_at, outcome,
       error_type, error_message, error_traceback, trace
FROM {schema}.attempts WHERE run_id = ANY($1::text[]) ORDER BY run_id, number;

-- name: load_keys
SELECT scope, idempotency_key, run_ids, fingerprints FROM {schema}.idempotency_keys
WHERE (scope, idempotency_key) OPERATOR(pg_catalog.=) ANY (SELECT * FROM unnest($1::text[], $2::text[]));

-- name: insert_run
INSERT INTO {schema}.runs (id, task, state, due_at, created_at, event, scope, idempotency_key,
                            correlation_id, parent_id, depth, concurrency_key, trace, args)
SELECT id, task, 'pending', due_at, created_at, event, scope, idempotency_key,
       correlation_id, parent_id, depth, concurrency_key, trace, args
FROM unnest($1::text[], $2::text[], $3::float8[], $4::float8[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[], $13::bytea[])
     WITH ORDINALITY
     AS new(id, task, due_at, created_at, event, scope, idempotency_key,
            correlation_id, parent_id, depth, concurrency_key, trace, args, place)
ORDER BY place;

-- name: insert_key
INSERT INTO {schema}.idempotency_keys (scope, idempotency_key, run_ids, fingerprints)
SELECT scope, idempotency_key, run_ids, fingerprints
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS new(scope, idempotency_key, run_ids, fingerprints)
ORDER BY scope, idempotency_key
ON CONFLICT (scope, idempotency_key) DO NOTHING
RETURNING 1;

-- name: update_run
UPDATE {schema}.runs AS r SET
    state = new.state, due_at = new.due_at, attempt = new.attempt, attempt_outcome = new.attempt_outcome,
    owner = new.owner, lease_expires = new.lease_expires, lease_clock = new.lease_clock,
    releasing = new.releasing, errors = new.errors, crashes = new.crashes,
    cancel_requested = new.cancel_requested, finished_at = new.finished_at, error_type = new.error_type,
    error_message = new.error_message, error_traceback = new.error_traceback,
    result = coalesce(new.result, r.result)
FROM unnest($1::text[], $2::float8[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::text[],
            $8::boolean[], $9::bigint[], $10::bigint[], $11::boolean[], $12::float8[], $13::text[],
            $14::text[], $15::text[], $16::bytea[], $17::text[])
     AS new(state, due_at, attempt, attempt_outcome, owner, lease_expires, lease_clock, releasing,
            errors, crashes, cancel_requested, finished_at, error_type, error_message, error_traceback,
            result, id)
WHERE r.id OPERATOR(pg_catalog.=) new.id;

-- name: fail_damaged
UPDATE {schema}.runs SET
    state = 'failed', attempt = greatest(attempt, 0), attempt_outcome = NULL, owner = NULL, result = NULL,
    finished_at = extract(epoch FROM pg_catalog.clock_timestamp())::float8,
    error_type = 'effectlog.Damaged', error_message = $2::text, error_traceback = ''
WHERE id = $1::text AND state = 'pending'
RETURNING 1;

-- name: insert_attempt
INSERT INTO {schema}.attempts (run_id, number, owner, worker, started_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::float8[]);

-- name: end_attempt
UPDATE {schema}.attempts AS a SET
    ended_at = ended.ended_at, outcome = ended.outcome, error_type = ended.error_type,
    error_message = ended.error_message, error_traceback = ended.error_traceback
FROM unnest($1::float8[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
     AS ended(ended_at, outcome, error_type, error_message, error_traceback, run_id, number)
WHERE a.run_id = ended.run_id AND a.number = ended.number;

-- name: note_trace
UPDATE {schema}.attempts AS a SET trace = new.trace
FROM unnest($1::text[], $2::bigint[], $3::text[]) AS new(run_id, number, trace)
WHERE a.run_id = new.run_id AND a.number = new.number;

-- name: save_effect
INSERT INTO {schema}.effects ({effect_columns})
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::float8[], $15::float8[],
    $16::text[], $17::float8[], $18::float8[], $19::boolean[], $20::bytea[], $21::text[], $22::text[],
    $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], $28::bytea[], $29::bigint[])
ON CONFLICT (run_id, effect_key) DO UPDATE SET
    operation_id = excluded.operation_id, policy = excluded.policy, state = excluded.state,
    version = excluded.version, generation = excluded.generation, requests = excluded.requests,
    open_requests = excluded.open_requests, executing = excluded.executing, attempt = excluded.attempt,
    first_wall = excluded.first_wall, first_boot = excluded.first_boot,
    first_boot_id = excluded.first_boot_id, finished_at = excluded.finished_at, final = excluded.final,
    result = excluded.result, result_error = excluded.result_error, error_type = excluded.error_type,
    error_message = excluded.error_message, error_traceback = excluded.error_traceback,
    destination = excluded.destination, resolved_by = excluded.resolved_by,
    evidence = excluded.evidence, late_result = excluded.late_result,
    late_attempt = excluded.late_attempt;

-- name: claimable
SELECT found.id, found.due_at, found.seq, found.crashes
FROM pg_catalog.unnest($1::text[]) AS wanted(task) CROSS JOIN LATERAL (
    SELECT id, due_at, seq, crashes FROM {schema}.runs
    WHERE state = 'pending' AND task = wanted.task AND due_at <= $2::float8 AND crashes < 2
    ORDER BY due_at, seq LIMIT $3::bigint FOR UPDATE SKIP LOCKED
) AS found
UNION ALL
SELECT suspect.id, suspect.due_at, suspect.seq, suspect.crashes
FROM pg_catalog.unnest($1::text[]) AS wanted(task) CROSS JOIN LATERAL (
    SELECT id, due_at, seq, crashes FROM {schema}.runs
    WHERE state = 'pending' AND task = wanted.task AND due_at <= $2::float8 AND crashes >= 2
    ORDER BY due_at, seq LIMIT $4::bigint FOR UPDATE SKIP LOCKED
) AS suspect;

-- name: claimable_keyed
SELECT id, due_at, seq, crashes FROM (
    SELECT p.id, p.due_at, p.seq, p.crashes,
           p.concurrency_key,
           pg_catalog.row_number() OVER (PARTITION BY p.concurrency_key ORDER BY p.due_at, p.seq) AS place
    FROM {schema}.runs AS p
    WHERE p.state = 'pending' AND p.task = ANY($1::text[]) AND p.due_at <= $2::float8
      AND NOT EXISTS (
          SELECT 1 FROM {schema}.runs AS busy
          WHERE busy.state = 'running' AND busy.task = ANY($1::text[])
            AND busy.concurrency_key = p.concurrency_key
      )
) AS first_of_key
WHERE (place = 1 OR concurrency_key IS NULL) AND (crashes < 2 OR $4::boolean)
ORDER BY due_at, seq LIMIT $3::bigint;

-- name: busy_key
SELECT busy.id FROM {schema}.runs AS mine
JOIN {schema}.runs AS busy ON busy.concurrency_key = mine.concurrency_key
WHERE mine.id = $2::text AND busy.state = 'running' AND busy.task = ANY($1::text[]);

-- name: count_running
SELECT pg_catalog.count(*) FROM {schema}.runs WHERE state = 'running' AND task = ANY($1::text[]);

-- name: find_runs
-- From where a run was that is gone by now, the nearest older id leads on: ids sort by time.
SELECT id FROM {schema}.runs
WHERE seq < CASE WHEN $1::text IS NULL THEN 9223372036854775807
                ELSE coalesce(
                    (SELECT seq FROM {schema}.runs WHERE id = $1::text),
                    (SELECT seq + 1 FROM {schema}.runs WHERE id < $1::text ORDER BY id DESC LIMIT 1)) END
ORDER BY seq DESC LIMIT $2::bigint;

-- name: find_runs_in_state
SELECT id FROM {schema}.runs
WHERE seq < CASE WHEN $1::text IS NULL THEN 9223372036854775807
                ELSE coalesce(
                    (SELECT seq FROM {schema}.runs WHERE id = $1::text),
                    (SELECT seq + 1 FROM {schema}.runs WHERE id < $1::text ORDER BY id DESC LIMIT 1)) END
  AND state = $3::text
ORDER BY seq DESC LIMIT $2::bigint;

-- name: find_runs_of_task
SELECT id FROM {schema}.runs
WHERE seq < CASE WHEN $1::text IS NULL THEN 9223372036854775807
                ELSE coalesce(
                    (SELECT seq FROM {schema}.runs WHERE id = $1::text),
                    (SELECT seq + 1 FROM {schema}.runs WHERE id < $1::text ORDER BY id DESC LIMIT 1)) END
  AND task = $3::text
ORDER BY seq DESC LIMIT $2::bigint;

-- name: find_runs_of_task_in_state
SELECT id FROM {schema}.runs
WHERE seq < CASE WHEN $1::text IS NULL THEN 9223372036854775807
                ELSE coalesce(
                    (SELECT seq FROM {schema}.runs WHERE id = $1::text),
                    (SELECT seq + 1 FROM {schema}.runs WHERE id < $1::text ORDER BY id DESC LIMIT 1)) END
  AND task = $3::text AND state = $4::text
ORDER BY seq DESC LIMIT $2::bigint;

-- name: load_summaries
-- Values that are big stand outside their rows and are not read.
SELECT {run_columns}, created_at, idempotency_key, correlation_id, parent_id,
       (SELECT pg_catalog.count(*) FROM {schema}.attempts AS a WHERE a.run_id = r.id),
       -- The sum of damaged counts may exceed a bigint, and must not fail the list for it.
       (SELECT least(coalesce(pg_catalog.sum(e.requests), 0), 9223372036854775807)::bigint
        FROM {schema}.effects AS e WHERE e.run_id = r.id)
FROM {schema}.runs AS r WHERE r.id = ANY($1::text[]);

-- name: list_unsettled
SELECT run_id, effect_key, executing FROM {schema}.effects
WHERE state = 'started' AND run_id = ANY($1::text[])
ORDER BY run_id, started_at, effect_key COLLATE pg_catalog."C";

-- name: load_result
SELECT result FROM {schema}.runs WHERE id = $1::text;

-- name: read_states
SELECT id, state FROM {schema}.runs WHERE id = ANY($1::text[]);

-- name: next_due
-- The earliest by min(), which an index answers: asked whether one EXISTS, the server reads the whole table to say no.
SELECT pg_catalog.bool_or(first_due_at <= now.at), pg_catalog.min(next_due_at - now.at)
FROM (SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS at) AS now
CROSS JOIN LATERAL (
    SELECT least((SELECT pg_catalog.min(due_at) FROM {schema}.runs
                  WHERE state = 'pending' AND crashes < 2 AND task = wanted.task),
                 (SELECT pg_catalog.min(due_at) FROM {schema}.runs
                  WHERE state = 'pending' AND crashes >= 2 AND task = wanted.task)) AS first_due_at,
           least((SELECT pg_catalog.min(due_at) FROM {schema}.runs
                  WHERE state = 'pending' AND crashes < 2 AND task = wanted.task AND due_at > now.at),
                 (SELECT pg_catalog.min(due_at) FROM {schema}.runs
                  WHERE state = 'pending' AND crashes >= 2 AND task = wanted.task AND due_at > now.at)) AS next_due_at
    FROM pg_catalog.unnest($1::text[]) AS wanted(task)
) AS each_task;

-- name: load_owners
SELECT DISTINCT owner, lease_clock FROM {schema}.runs WHERE state = 'running';

-- name: lapsed
SELECT {run_columns}
FROM {schema}.runs
WHERE state = 'running'
  AND ((lease_clock = $1::text AND lease_expires <= extract(epoch FROM pg_catalog.clock_timestamp())::float8)
       OR owner = ANY($2::text[]));

-- name: next_lapse
SELECT pg_catalog.min(r.lease_expires - now.at)
FROM (SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS at) AS now
JOIN {schema}.runs AS r ON r.state = 'running' AND r.lease_clock = $1::text AND r.lease_expires > now.at;

-- name: remove_subscriptions
DELETE FROM {schema}.subscriptions WHERE task = ANY($1::text[]);

-- name: save_subscription
INSERT INTO {schema}.subscriptions (event, task, parameter, concurrency_key, aliases)
SELECT event, task, parameter, concurrency_key, aliases
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
    AS new(event, task, parameter, concurrency_key, aliases)
ORDER BY event, task
ON CONFLICT (event, task) DO UPDATE SET
    parameter = excluded.parameter, concurrency_key = excluded.concurrency_key, aliases = excluded.aliases;

-- name: load_subscriptions
SELECT event, task, parameter, concurrency_key, aliases FROM {schema}.subscriptions
WHERE event = $1::text ORDER BY task COLLATE pg_catalog."C";

-- name: save_worker
INSERT INTO {schema}.workers (owner, worker, host, pid, concurrency, beat_at, claimed_at, tasks)
VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::float8, $7::float8, $8::text[])
ON CONFLICT (owner) DO UPDATE SET
    beat_at = excluded.beat_at, claimed_at = coalesce(excluded.claimed_at, {schema}.workers.claimed_at),
    tasks = excluded.tasks;

-- name: remove_worker
DELETE FROM {schema}.workers WHERE owner = $1::text;

-- name: load_workers
SELECT owner, worker, host, pid, concurrency, beat_at, claimed_at, tasks FROM {schema}.workers
ORDER BY beat_at DESC;

-- name: purgeable
SELECT id, scope, idempotency_key FROM {schema}.runs
WHERE finished_at <= $1::float8 AND state = ANY($2::text[])
  AND ($4::text[] IS NULL OR id = ANY($4::text[]))
  AND NOT EXISTS (SELECT 1 FROM {schema}.effects WHERE run_id = {schema}.runs.id AND {schema}.effects.state = 'started')
ORDER BY finished_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED;

-- name: purge_runs
DELETE FROM {schema}.runs WHERE id = ANY($1::text[]);

-- name: purge_attempts
DELETE FROM {schema}.attempts WHERE run_id = ANY($1::text[]);

-- name: purge_effects
DELETE FROM {schema}.effects WHERE run_id = ANY($1::text[]);

-- name: purge_keys
DELETE FROM {schema}.idempotency_keys AS k
WHERE (scope, idempotency_key) IN (SELECT * FROM unnest($1::text[], $2::text[]))
  AND NOT EXISTS (
      SELECT 1 FROM {schema}.runs AS r
      WHERE r.scope = k.scope AND r.idempotency_key = k.idempotency_key
  );

-- name: count_states
SELECT state, pg_catalog.count(*) FROM {schema}.runs GROUP BY state;

-- name: count_pending_tasks
SELECT task, pg_catalog.count(*), pg_catalog.min(due_at) FROM {schema}.runs
WHERE state = 'pending' GROUP BY task ORDER BY task;

-- name: count_dead_letters
SELECT task, pg_catalog.count(*) FROM {schema}.runs
WHERE state = 'failed' AND finished_at >= $1::float8 GROUP BY task ORDER BY task;

-- name: oldest_doubt
SELECT pg_catalog.min(e.started_at) FROM {schema}.effects AS e JOIN {schema}.runs AS r ON r.id = e.run_id
WHERE e.state = 'started' AND r.state <> 'running';

-- name: load_mark
SELECT mark FROM {schema}.migrations ORDER BY number DESC LIMIT 1;

-- name: save_mark
UPDATE {schema}.migrations SET mark = $1::text
WHERE number = (SELECT pg_catalog.max(number) FROM {schema}.migrations)
RETURNING 1;

-- name: table_bytes
SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace = pg_catalog.to_regnamespace('{schema}') AND c.relkind = 'r';

-- name: open_transactions
SELECT DISTINCT a.pid, coalesce(a.application_name, ''),
       extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8
FROM pg_catalog.pg_stat_activity AS a JOIN pg_catalog.pg_locks AS l ON l.pid = a.pid
WHERE l.relation = '{schema}.runs'::regclass AND l.mode = 'RowShareLock' AND a.state LIKE 'idle in transaction%'
  AND a.xact_start < pg_catalog.clock_timestamp() - interval '5 seconds';

-- name: hold_owner
SELECT pg_catalog.pg_try_advisory_lock($1::bigint);

-- name: drop_owner
SELECT pg_catalog.pg_advisory_unlock($1::bigint);

-- name: end_old_session
SELECT pg_catalog.pg_terminate_backend(a.pid)
FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = $1::integer
  AND extract(epoch FROM a.backend_start)::float8 = $2::float8;

-- name: session_facts
SELECT pg_catalog.pg_backend_pid(), extract(epoch FROM a.backend_start)::float8
FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = pg_catalog.pg_backend_pid();

-- name: save_owner
INSERT INTO {schema}.owners (owner, lock_key, host, pid, process_start, server_start, held_at)
VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::text,
        extract(epoch FROM pg_catalog.pg_postmaster_start_time())::float8,
        extract(epoch FROM pg_catalog.clock_timestamp())::float8)
ON CONFLICT (owner) DO UPDATE SET
    lock_key = excluded.lock_key, host = excluded.host, pid = excluded.pid,
    process_start = excluded.process_start, server_start = excluded.server_start,
    held_at = excluded.held_at;

-- name: remove_old_owners
DELETE FROM {schema}.owners
WHERE held_at < extract(epoch FROM pg_catalog.clock_timestamp())::float8 - $1::float8
  AND pg_catalog.pg_try_advisory_xact_lock_shared(lock_key)
RETURNING 1;

-- name: forget_owner
DELETE FROM {schema}.owners
WHERE owner = $1::text AND pg_catalog.pg_try_advisory_xact_lock_shared(lock_key) RETURNING 1;

-- name: remove_owner
DELETE FROM {schema}.owners WHERE owner = $1::text RETURNING 1;

-- name: look_at_owners
SELECT o.owner, o.host, o.pid, o.process_start, o.held_at,
       o.server_start = extract(epoch FROM pg_catalog.pg_postmaster_start_time())::float8 AND NOT EXISTS (
           SELECT 1 FROM pg_catalog.pg_locks AS l
           WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
             AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
             AND l.classid::bigint = (o.lock_key >> 32) & 4294967295
             AND l.objid::bigint = o.lock_key & 4294967295
       ) AS free
FROM {schema}.owners AS o WHERE o.owner = ANY($1::text[]);

-- name: workers_without_session
SELECT o.owner FROM {schema}.owners AS o JOIN {schema}.workers AS w ON w.owner = o.owner
WHERE NOT EXISTS (
    SELECT 1 FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
      AND l.classid::bigint = (o.lock_key >> 32) & 4294967295
      AND l.objid::bigint = o.lock_key & 4294967295
);

-- name: lock_owners
SELECT pg_catalog.pg_try_advisory_xact_lock_shared(wanted.key)
FROM pg_catalog.unnest($1::bigint[]) WITH ORDINALITY AS wanted(key, place) ORDER BY wanted.place;

-- name: notify
SELECT pg_catalog.pg_notify($1::text, $2::text);
