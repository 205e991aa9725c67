CREATE TABLE {schema}.runs (
    id TEXT NOT NULL PRIMARY KEY CHECK (pg_catalog.length(id) BETWEEN 1 AND 64),
    seq BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    task TEXT NOT NULL,
    event TEXT,
    state TEXT NOT NULL
        CHECK (state IN ('pending', 'running', 'succeeded', 'failed', 'cancelled', 'held')),
    attempt BIGINT NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    attempt_outcome TEXT,
    owner TEXT,
    lease_expires DOUBLE PRECISION NOT NULL DEFAULT 0,
    lease_clock TEXT NOT NULL DEFAULT '',
    releasing BOOLEAN NOT NULL DEFAULT FALSE,
    errors BIGINT NOT NULL DEFAULT 0,
    crashes BIGINT NOT NULL DEFAULT 0,
    cancel_requested BOOLEAN NOT NULL DEFAULT FALSE,
    due_at DOUBLE PRECISION NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION,
    scope TEXT,
    idempotency_key TEXT,
    correlation_id TEXT,
    parent_id TEXT,
    depth BIGINT NOT NULL DEFAULT 0,
    concurrency_key TEXT,
    trace TEXT,
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    args BYTEA NOT NULL,
    result BYTEA,
    CHECK ((state = 'running') = (owner IS NOT NULL)),
    CHECK (state <> 'running' OR attempt > 0),
    CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CHECK (result IS NULL OR state = 'succeeded')
);

CREATE INDEX runs_pending ON {schema}.runs (task, due_at, seq) WHERE state = 'pending' AND crashes < 2;
CREATE INDEX runs_suspect ON {schema}.runs (task, due_at, seq) WHERE state = 'pending' AND crashes >= 2;
CREATE INDEX runs_running ON {schema}.runs (task, concurrency_key) WHERE state = 'running';
CREATE INDEX runs_ended ON {schema}.runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_by_state ON {schema}.runs (state, seq);
CREATE INDEX runs_by_task ON {schema}.runs (task, seq);
CREATE INDEX runs_by_key ON {schema}.runs (scope, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE {schema}.idempotency_keys (
    scope TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprints TEXT NOT NULL,
    run_ids TEXT NOT NULL,
    PRIMARY KEY (scope, idempotency_key)
);

CREATE TABLE {schema}.attempts (
    run_id TEXT NOT NULL,
    number BIGINT NOT NULL CHECK (number > 0),
    owner TEXT NOT NULL,
    worker TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    outcome TEXT CHECK (
        outcome IN ('succeeded', 'error', 'timed_out', 'expired', 'released', 'held', 'cancelled')
    ),
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    trace TEXT,
    PRIMARY KEY (run_id, number),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

CREATE TABLE {schema}.effects (
    run_id TEXT NOT NULL,
    effect_key TEXT NOT NULL CHECK (pg_catalog.length(effect_key) > 0),
    name TEXT NOT NULL,
    operation_id TEXT NOT NULL CHECK (pg_catalog.length(operation_id) = 36),
    fingerprints TEXT NOT NULL,
    policy TEXT NOT NULL CHECK (policy IN ('resend', 'hold', 'look-up')),
    state TEXT NOT NULL CHECK (state IN ('started', 'completed', 'failed')),
    version BIGINT NOT NULL CHECK (version > 0),
    generation BIGINT NOT NULL CHECK (generation >= 0),
    -- One that was announced and then not made doesn't count, so there may have been no request at all.
    requests BIGINT NOT NULL CHECK (requests >= 0),
    open_requests BIGINT NOT NULL CHECK (open_requests BETWEEN 0 AND requests),
    executing TEXT NOT NULL,
    attempt BIGINT NOT NULL CHECK (attempt > 0),
    first_wall DOUBLE PRECISION,
    first_boot DOUBLE PRECISION,
    first_boot_id TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION,
    final BOOLEAN NOT NULL DEFAULT FALSE,
    result BYTEA,
    result_error TEXT,
    error_type TEXT,
    error_message TEXT,
    error_traceback TEXT,
    destination TEXT,
    resolved_by TEXT,
    evidence TEXT,
    late_result BYTEA,
    late_attempt BIGINT,
    PRIMARY KEY (run_id, effect_key),
    CHECK ((state = 'started') = (finished_at IS NULL)),
    CHECK ((state = 'completed') = (result IS NOT NULL OR result_error IS NOT NULL)),
    CHECK (state = 'started' OR open_requests = 0),
    CHECK (state <> 'started' OR open_requests > 0),
    CHECK (NOT final OR state = 'failed')
);

CREATE INDEX effects_unsettled ON {schema}.effects (run_id) WHERE state = 'started';

CREATE TABLE {schema}.subscriptions (
    event TEXT NOT NULL,
    task TEXT NOT NULL,
    parameter TEXT NOT NULL,
    concurrency_key TEXT,
    -- The names that the task had before, as a JSON array: an event makes no second run under one of them.
    aliases TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (event, task)
);

CREATE TABLE {schema}.workers (
    owner TEXT NOT NULL PRIMARY KEY,
    worker TEXT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    concurrency BIGINT NOT NULL,
    beat_at DOUBLE PRECISION NOT NULL,
    claimed_at DOUBLE PRECISION,
    tasks TEXT[] NOT NULL
);

-- Who holds which session advisory lock, and where its process can be looked up.
CREATE TABLE {schema}.owners (
    owner TEXT NOT NULL PRIMARY KEY,
    lock_key BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    process_start TEXT NOT NULL,
    server_start DOUBLE PRECISION NOT NULL,
    held_at DOUBLE PRECISION NOT NULL
);

-- The number of the last transaction of each writer: what tells whether a commit without an answer landed.
CREATE TABLE {schema}.writers (
    id BIGINT NOT NULL PRIMARY KEY,
    batch BIGINT NOT NULL,
    opened_at DOUBLE PRECISION NOT NULL
);
