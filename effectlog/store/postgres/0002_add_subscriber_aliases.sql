-- The names that a subscribed task had before, as a JSON array: an event makes no second run under one of them.

ALTER TABLE effectlog.subscriptions ADD COLUMN aliases TEXT NOT NULL DEFAULT '[]';
