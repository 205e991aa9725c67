-- When the wait until due_at began; NULL where somebody asked for that very time, which alone follows the wall clock.

ALTER TABLE effectlog_runs ADD COLUMN waits_since REAL;

UPDATE effectlog_runs SET waits_since = due_at WHERE state = 'pending' AND attempt = 0 AND due_at <= created_at;

CREATE INDEX effectlog_runs_waiting ON effectlog_runs (task, waits_since) WHERE state = 'pending';
