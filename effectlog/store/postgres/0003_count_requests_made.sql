-- A request that was announced and then not made counts for none, so an effect may have had no request at all.

ALTER TABLE effectlog.effects
    DROP CONSTRAINT effects_requests_check,
    ADD CONSTRAINT effects_requests_check CHECK (requests >= 0);
