-- A request that was announced and then not made counts for none, so an effect may have had no request at all.
-- SQLite changes no CHECK of a table, so the table is made anew (https://sqlite.org/lang_altertable.html#otheralter).

CREATE TABLE effectlog_effects_counted (
    run_id TEXT NOT NULL,
    effect_key TEXT NOT NULL CHECK (length(effect_key) > 0),
    name TEXT NOT NULL,
    operation_id TEXT NOT NULL CHECK (length(operation_id) = 36),
    fingerprints TEXT NOT NULL,
    policy TEXT NOT NULL CHECK ((policy = 'resend' OR policy = 'hold' OR policy = 'look-up')),
    state TEXT NOT NULL CHECK ((state = 'started' OR state = 'completed' OR state = 'failed')),
    version INTEGER NOT NULL CHECK (version > 0),
    generation INTEGER NOT NULL CHECK (generation >= 0),
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

INSERT INTO effectlog_effects_counted SELECT * FROM effectlog_effects;

DROP TABLE effectlog_effects;

ALTER TABLE effectlog_effects_counted RENAME TO effectlog_effects;
