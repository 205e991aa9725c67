-- include: run_columns
id, task, state, due_at, attempt, attempt_outcome, owner, lease_expires, lease_clock, releasing, errors, crashes,
       cancel_requested, finished_at, error_type, error_message, error_traceback, waits_since

-- include: effect_columns
run_id, effect_key, name, operation_id, fingerprints, policy, state, version,
       generation, requests, open_requests, executing, attempt, first_wall, first_boot,
       first_boot_id, started_at, finished_at, final, result, result_error, error_type,
       error_message, error_traceback, destination, resolved_by, evidence, late_result,
       late_attempt

-- name: load_runs
SELECT {run_columns}
FROM effectlog_runs WHERE id IN (SELECT value FROM json_each(?));

-- name: load_effects
SELECT {effect_columns}
FROM json_each(?) AS wanted
JOIN effectlog_effects AS e ON e.run_id = wanted.value ->> 0 AND e.effect_key = wanted.value ->> 1;

-- name: load_unsettled
SELECT {effect_columns}
FROM effectlog_effects WHERE state = 'started' AND run_id IN (SELECT value FROM json_each(?));

-- name: load_journal
SELECT {effect_columns}
FROM effectlog_effects WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, started_at, effect_key;

-- name: load_attempts
SELECT run_id, number, owner, worker, started_at, ended_at, outcome,
       error_type, error_message, error_traceback, trace
FROM effectlog_attempts WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, number;

-- name: load_payloads
SELECT id, args, created_at, result, scope, idempotency_key, correlation_id, parent_id, event, depth, trace
FROM effectlog_runs WHERE id IN (SELECT value FROM json_each(?));

-- name: load_keys
SELECT k.scope, k.idempotency_key, k.run_ids, k.fingerprints
FROM json_each(?) AS wanted
JOIN effectlog_idempotency_keys AS k
  ON k.scope = wanted.value ->> 0 AND k.idempotency_key = wanted.value ->> 1;

-- name: insert_run
INSERT INTO effectlog_runs (id, task, state, due_at, created_at, event, scope, idempotency_key, correlation_id,
                  parent_id, depth, concurrency_key, trace, args, waits_since)
VALUES (?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_key
INSERT INTO effectlog_idempotency_keys (scope, idempotency_key, run_ids, fingerprints) VALUES (?, ?, ?, ?);

-- name: update_run
UPDATE effectlog_runs SET
    state = new.column1, due_at = new.column2, attempt = new.column3, attempt_outcome = new.column4,
    owner = new.column5, lease_expires = new.column6, lease_clock = new.column7,
    releasing = new.column8, errors = new.column9, crashes = new.column10,
    cancel_requested = new.column11, finished_at = new.column12, error_type = new.column13,
    error_message = new.column14, error_traceback = new.column15,
    result = COALESCE(new.column16, result), waits_since = new.column18
FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) AS new
WHERE effectlog_runs.id = new.column17;

-- name: fail_damaged
UPDATE effectlog_runs SET
    state = 'failed', attempt = max(attempt, 0), attempt_outcome = NULL, owner = NULL, result = NULL,
    finished_at = ?, error_type = 'effectlog.Damaged', error_message = ?, error_traceback = ''
WHERE id = ? AND state = 'pending';

-- name: insert_attempt
INSERT INTO effectlog_attempts (run_id, number, owner, worker, started_at) VALUES (?, ?, ?, ?, ?);

-- name: end_attempt
UPDATE effectlog_attempts SET
    ended_at = new.column1, outcome = new.column2, error_type = new.column3,
    error_message = new.column4, error_traceback = new.column5
FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) AS new
WHERE effectlog_attempts.run_id = new.column6 AND effectlog_attempts.number = new.column7;

-- name: note_trace
UPDATE effectlog_attempts SET trace = new.column3
FROM (VALUES (?, ?, ?)) AS new
WHERE effectlog_attempts.run_id = new.column1 AND effectlog_attempts.number = new.column2;

-- name: save_effect
INSERT INTO effectlog_effects ({effect_columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
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

-- name: insert_effect
INSERT INTO effectlog_effects (run_id, effect_key, name, operation_id, fingerprints, policy, state, version,
                     generation, requests, open_requests, executing, attempt, first_wall, first_boot,
                     first_boot_id, started_at, destination)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: complete_effect
UPDATE effectlog_effects SET
    state = 'completed', version = new.column1, open_requests = 0, executing = new.column2,
    finished_at = new.column3, result = new.column4, result_error = new.column5,
    error_type = NULL, error_message = NULL, error_traceback = NULL
FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) AS new
WHERE effectlog_effects.run_id = new.column6 AND effectlog_effects.effect_key = new.column7;

-- name: claimable
-- A run that waits since later than now waits by a clock that was set back: it is due, and has waited longest.
SELECT r.id, iif(r.waits_since > :now, 0, r.due_at), r.seq, r.crashes
FROM json_each(:tasks) AS wanted
JOIN effectlog_runs AS r ON r.seq IN (
    SELECT seq FROM (
        SELECT seq FROM effectlog_runs
        WHERE state = 'pending' AND task = wanted.value AND due_at <= :now AND crashes < 2
        ORDER BY due_at, seq LIMIT :limit
    )
    UNION ALL
    SELECT seq FROM (
        SELECT seq FROM effectlog_runs
        WHERE state = 'pending' AND task = wanted.value AND waits_since > :now AND crashes < 2
        ORDER BY waits_since, seq LIMIT :limit
    )
);

-- name: claimable_suspect
SELECT r.id, iif(r.waits_since > :now, 0, r.due_at), r.seq, r.crashes
FROM json_each(:tasks) AS wanted
JOIN effectlog_runs AS r ON r.seq IN (
    SELECT seq FROM (
        SELECT seq FROM effectlog_runs
        WHERE state = 'pending' AND task = wanted.value AND due_at <= :now AND crashes >= 2
        ORDER BY due_at, seq LIMIT :limit
    )
    UNION ALL
    SELECT seq FROM (
        SELECT seq FROM effectlog_runs
        WHERE state = 'pending' AND task = wanted.value AND waits_since > :now AND crashes >= 2
        ORDER BY waits_since, seq LIMIT :limit
    )
);

-- name: claimable_keyed
SELECT id, since, seq, crashes FROM (
    SELECT p.id, p.since, p.seq, p.crashes,
           p.concurrency_key, row_number() OVER (PARTITION BY p.concurrency_key ORDER BY p.since, p.seq) AS place
    FROM (
        SELECT id, due_at AS since, seq, crashes, concurrency_key FROM effectlog_runs
        WHERE state = 'pending' AND task IN (SELECT value FROM json_each(:tasks)) AND due_at <= :now
        UNION ALL
        SELECT id, 0, seq, crashes, concurrency_key FROM effectlog_runs
        WHERE state = 'pending' AND task IN (SELECT value FROM json_each(:tasks)) AND waits_since > :now AND due_at > :now
    ) AS p
    WHERE NOT EXISTS (
          SELECT 1 FROM effectlog_runs AS busy
          WHERE busy.state = 'running' AND busy.task IN (SELECT value FROM json_each(:tasks))
            AND busy.concurrency_key = p.concurrency_key
      )
) WHERE (place = 1 OR concurrency_key IS NULL) AND (crashes < 2 OR :suspects) ORDER BY since, seq LIMIT :limit;

-- name: busy_key
SELECT busy.id FROM effectlog_runs AS mine
JOIN effectlog_runs AS busy ON busy.concurrency_key = mine.concurrency_key
WHERE mine.id = :run_id AND busy.state = 'running' AND busy.task IN (SELECT value FROM json_each(:tasks));

-- name: count_running
SELECT count(*) FROM effectlog_runs WHERE state = 'running' AND task IN (SELECT value FROM json_each(?));

-- name: find_runs
-- From where a run was that is gone by now, the nearest older id leads on: ids sort by time.
SELECT id FROM effectlog_runs
WHERE (:state IS NULL OR state = :state) AND (:task IS NULL OR task = :task)
  AND (:before IS NULL OR seq < coalesce(
      (SELECT seq FROM effectlog_runs WHERE id = :before),
      (SELECT seq + 1 FROM effectlog_runs WHERE id < :before ORDER BY id DESC LIMIT 1)))
ORDER BY seq DESC LIMIT :limit;

-- name: load_summaries
-- Reads no values: they stand last in the row, and SQLite reads a row up to the last column that is asked for.
SELECT {run_columns}, created_at, idempotency_key, correlation_id, parent_id,
       (SELECT count(*) FROM effectlog_attempts AS a WHERE a.run_id = r.id),
       -- sum() would raise where damaged counts exceed an integer, and fail the list for it.
       (SELECT CAST(total(e.requests) AS INTEGER) FROM effectlog_effects AS e WHERE e.run_id = r.id)
FROM effectlog_runs AS r WHERE r.id IN (SELECT value FROM json_each(?));

-- name: list_unsettled
SELECT run_id, effect_key, executing FROM effectlog_effects
WHERE state = 'started' AND run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, started_at, effect_key;

-- name: load_result
SELECT result FROM effectlog_runs WHERE id = ?;

-- name: read_states
SELECT id, state FROM effectlog_runs WHERE id IN (SELECT value FROM json_each(?));

-- name: next_due
SELECT max(due), min(next_due_at) FROM (
    SELECT EXISTS (
               SELECT 1 FROM effectlog_runs WHERE state = 'pending' AND task = wanted.value AND due_at <= :now
           ) OR EXISTS (
               SELECT 1 FROM effectlog_runs WHERE state = 'pending' AND task = wanted.value AND waits_since > :now
           ) AS due,
           (SELECT min(due_at) FROM effectlog_runs
            WHERE state = 'pending' AND task = wanted.value AND due_at > :now) AS next_due_at
    FROM json_each(:tasks) AS wanted
);

-- name: load_owners
SELECT DISTINCT owner, lease_clock FROM effectlog_runs WHERE state = 'running';

-- name: lapsed
SELECT {run_columns}
FROM effectlog_runs
WHERE state = 'running'
  AND ((lease_clock = :clock AND lease_expires <= :now) OR owner IN (SELECT value FROM json_each(:dead_owners)));

-- name: next_lapse
SELECT min(lease_expires) FROM effectlog_runs WHERE state = 'running' AND lease_clock = :clock AND lease_expires > :now;

-- name: remove_subscriptions
DELETE FROM effectlog_subscriptions WHERE task IN (SELECT value FROM json_each(?));

-- name: save_subscription
INSERT INTO effectlog_subscriptions (event, task, parameter, concurrency_key, aliases) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (event, task) DO UPDATE SET
    parameter = excluded.parameter, concurrency_key = excluded.concurrency_key, aliases = excluded.aliases;

-- name: load_subscriptions
SELECT event, task, parameter, concurrency_key, aliases FROM effectlog_subscriptions WHERE event = ? ORDER BY task;

-- name: save_worker
INSERT INTO effectlog_workers (owner, worker, host, pid, concurrency, beat_at, claimed_at, tasks)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (owner) DO UPDATE SET
    beat_at = excluded.beat_at, claimed_at = COALESCE(excluded.claimed_at, effectlog_workers.claimed_at),
    tasks = excluded.tasks;

-- name: remove_worker
DELETE FROM effectlog_workers WHERE owner = ?;

-- name: load_workers
SELECT owner, worker, host, pid, concurrency, beat_at, claimed_at, tasks
FROM effectlog_workers ORDER BY beat_at DESC;

-- name: purgeable
SELECT r.id, r.scope, r.idempotency_key
FROM json_each(:states) AS wanted
JOIN effectlog_runs AS r ON r.seq IN (
    SELECT seq FROM effectlog_runs AS ended
    WHERE state = wanted.value AND finished_at <= :ended_by
      AND (:only IS NULL OR id IN (SELECT value FROM json_each(:only)))
      AND NOT EXISTS (SELECT 1 FROM effectlog_effects AS e WHERE e.run_id = ended.id AND e.state = 'started')
    ORDER BY finished_at LIMIT :limit
)
ORDER BY r.finished_at LIMIT :limit;

-- name: purge_runs
DELETE FROM effectlog_runs WHERE id IN (SELECT value FROM json_each(?));

-- name: purge_attempts
DELETE FROM effectlog_attempts WHERE run_id IN (SELECT value FROM json_each(?));

-- name: purge_effects
DELETE FROM effectlog_effects WHERE run_id IN (SELECT value FROM json_each(?));

-- name: purge_keys
DELETE FROM effectlog_idempotency_keys
WHERE (scope, idempotency_key) IN (
    SELECT wanted.value ->> 0, wanted.value ->> 1 FROM json_each(?) AS wanted
) AND NOT EXISTS (
    SELECT 1 FROM effectlog_runs
    WHERE effectlog_runs.scope = effectlog_idempotency_keys.scope AND effectlog_runs.idempotency_key = effectlog_idempotency_keys.idempotency_key
);

-- name: count_states
SELECT state, count(*) FROM effectlog_runs GROUP BY state;

-- name: count_pending_tasks
SELECT task, count(*), min(due_at) FROM effectlog_runs WHERE state = 'pending' GROUP BY task ORDER BY task;

-- name: count_dead_letters
SELECT task, count(*) FROM effectlog_runs WHERE state = 'failed' AND finished_at >= ? GROUP BY task ORDER BY task;

-- name: oldest_doubt
SELECT min(e.started_at) FROM effectlog_effects AS e JOIN effectlog_runs AS r ON r.id = e.run_id
WHERE e.state = 'started' AND r.state <> 'running';

-- name: load_mark
SELECT mark FROM effectlog_migrations ORDER BY number DESC LIMIT 1;

-- name: save_mark
UPDATE effectlog_migrations SET mark = ? WHERE number = (SELECT max(number) FROM effectlog_migrations);
