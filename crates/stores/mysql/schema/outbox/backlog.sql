-- What is not published of a stream, counted up to a bound, and when the oldest that waits was written: the first of the
-- new ones in their order, or one that comes again. ? stream, ? at most, ? stream, ? at most, ? stream, ? stream,
-- ? at most.
SELECT waiting.number, dead.number, LEAST(COALESCE(fresh.since, again.since), COALESCE(again.since, fresh.since))
FROM
    (SELECT COUNT(*) AS number FROM (
        SELECT 1 FROM semel_outbox FORCE INDEX (pending)
        WHERE stream = ? AND sent_at IS NULL AND (due_at IS NULL OR due_at < 9223372036854775807) LIMIT ?
    ) AS found) AS waiting,
    (SELECT COUNT(*) AS number FROM (
        SELECT 1 FROM semel_outbox FORCE INDEX (pending)
        WHERE stream = ? AND sent_at IS NULL AND due_at = 9223372036854775807 LIMIT ?
    ) AS found) AS dead,
    (SELECT MIN(created_at) AS since FROM (
        SELECT created_at FROM semel_outbox FORCE INDEX (pending)
        WHERE stream = ? AND sent_at IS NULL AND due_at IS NULL ORDER BY place LIMIT 1
    ) AS found) AS fresh,
    (SELECT MIN(created_at) AS since FROM (
        SELECT created_at FROM semel_outbox FORCE INDEX (pending)
        WHERE stream = ? AND sent_at IS NULL AND due_at < 9223372036854775807 LIMIT ?
    ) AS found) AS again
