-- What is not published of a stream, counted up to a bound, and when the first that is not dead was written. ?1 stream,
-- ?2 at most.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM semel_outbox WHERE stream = ?1 AND sent_at IS NULL LIMIT 2 * ?2)),
    (SELECT count(*) FROM (
        SELECT 1 FROM semel_outbox
        WHERE stream = ?1 AND due_at IS NOT NULL AND sent_at IS NULL AND dead_at IS NOT NULL LIMIT ?2
    )),
    (SELECT CAST(created_at AS INTEGER) FROM (
        SELECT created_at, dead_at FROM semel_outbox WHERE stream = ?1 AND sent_at IS NULL ORDER BY place LIMIT 2 * ?2
    ) WHERE dead_at IS NULL LIMIT 1)
