-- CHECKs spell alternatives with OR: SQLite builds a table for every IN list, for every row it checks.
-- Effects and attempts keep their rowids: rows are appended side by side, so a batch of many runs touches few pages.

CREATE TABLE effectlog_runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE CHECK (length(id) BETWEEN 1 AND 64),
    task TEXT NOT NULL,
    event TEXT,
    state TEXT NOT NULL
        CHECK (state = 'pending' OR state = 'running' OR state = 'succeeded' OR state = 'failed'
               OR state = 'cancelled' OR state = 'held'),
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    attempt_outcome TEXT,
    owner TEXT,
    lease_expires REAL NOT NULL DEFAULT 0,
    lease_clock TEXT NOT NULL DEFAULT '',
    releasing INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    due_at REAL NOT NULL,
    created_at REAL NOT NULL,
    finished_at REAL,
    scope TEXT,
    idempotency_key TEXT,
    correlation_id TEXT,
    parent_id TEXT,
    depth INTEGER NOT NULL DEFAULT 0,
    concurrency_key TEXT,
    trace TEXT,
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    -- When the wait until due_at began; NULL where somebody asked for that very time, which alone follows the wall
    -- clock.
    waits_since REAL,
    -- SQLite reads a row up to the last column that is asked for, so what may be megabytes stands last.
    args BLOB NOT NULL,
    result BLOB,
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK (state <> 'running' OR attempt > 0),
    CHECK ((state = 'succeeded' OR state = 'failed' OR state = 'cancelled') = (finished_at IS NOT NULL)),
    CHECK (result IS NULL OR state = 'succeeded')
) STRICT;

CREATE INDEX effectlog_runs_pending ON effectlog_runs (task, due_at, seq) WHERE state = 'pending';
CREATE INDEX effectlog_runs_suspect ON effectlog_runs (task, due_at, seq) WHERE state = 'pending' AND crashes >= 2;
CREATE INDEX effectlog_runs_waiting ON effectlog_runs (task, waits_since) WHERE state = 'pending';
CREATE INDEX effectlog_runs_running ON effectlog_runs (task, concurrency_key) WHERE state = 'running';
CREATE INDEX effectlog_runs_ended ON effectlog_runs (state, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX effectlog_runs_by_state ON effectlog_runs (state, seq);
CREATE INDEX effectlog_runs_by_task ON effectlog_runs (task, seq);
CREATE INDEX effectlog_runs_by_key ON effectlog_runs (scope, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE effectlog_idempotency_keys (
    scope TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprints TEXT NOT NULL,
    run_ids TEXT NOT NULL,
    PRIMARY KEY (scope, idempotency_key)
) WITHOUT ROWID, STRICT;

CREATE TABLE effectlog_attempts (
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    owner TEXT NOT NULL,
    worker TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,
    outcome TEXT CHECK (
        outcome = 'succeeded' OR outcome = 'error' OR outcome = 'timed_out' OR outcome = 'expired'
        OR outcome = 'released' OR outcome = 'held' OR outcome = 'cancelled'
    ),
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    trace TEXT,
    PRIMARY KEY (run_id, number),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE TABLE effectlog_effects (
    run_id TEXT NOT NULL,
    effect_key TEXT NOT NULL CHECK (length(effect_key) > 0),
    name TEXT NOT NULL,
    operation_id TEXT NOT NULL CHECK (length(operation_id) = 36),
    fingerprints TEXT NOT NULL,
    policy TEXT NOT NULL CHECK (policy = 'resend' OR policy = 'hold' OR policy = 'look-up'),
    state TEXT NOT NULL CHECK (state = 'started' OR state = 'completed' OR state = 'failed'),
    version INTEGER NOT NULL CHECK (version > 0),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    -- One that was announced and then not made doesn't count, so there may have been no request at all.
    requests INTEGER NOT NULL CHECK (requests >= 0),
    open_requests INTEGER NOT NULL CHECK (open_requests BETWEEN 0 AND requests),
    executing TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    first_wall REAL,
    first_boot REAL,
    first_boot_id TEXT,
    started_at REAL NOT NULL,
    finished_at REAL,
    final INTEGER NOT NULL DEFAULT 0,
    result BLOB,
    result_error TEXT,
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    destination TEXT,
    resolved_by TEXT,
    evidence TEXT,
    late_result BLOB,
    late_attempt INTEGER,
    PRIMARY KEY (run_id, effect_key),
    CHECK ((state = 'started') = (finished_at IS NULL)),
    CHECK ((state = 'completed') = (result IS NOT NULL OR result_error IS NOT NULL)),
    CHECK (state = 'started' OR open_requests = 0),
    CHECK (state <> 'started' OR open_requests > 0),
    CHECK (final = 0 OR state = 'failed')
) STRICT;

CREATE TABLE effectlog_subscriptions (
    event TEXT NOT NULL,
    task TEXT NOT NULL,
    parameter TEXT NOT NULL,
    concurrency_key TEXT,
    -- The names that the task had before, as a JSON array: an event makes no second run under one of them.
    aliases TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (event, task)
) WITHOUT ROWID, STRICT;

CREATE TABLE effectlog_workers (
    owner TEXT NOT NULL PRIMARY KEY,
    worker TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    beat_at REAL NOT NULL,
    claimed_at REAL,
    tasks TEXT NOT NULL
) WITHOUT ROWID, STRICT;
