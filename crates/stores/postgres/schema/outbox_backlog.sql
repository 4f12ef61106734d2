-- What is not published of a stream, counted up to a bound. $1 stream, $2 at most.
SELECT
    (SELECT count(*) FROM (
        SELECT FROM semel_outbox WHERE stream = $1::text AND sent_at IS NULL ORDER BY place LIMIT 2 * $2::bigint
    ) AS unpublished),
    (SELECT count(*) FROM (
        SELECT FROM semel_outbox
        WHERE stream = $1 AND due_at IS NOT NULL AND sent_at IS NULL AND dead_at IS NOT NULL LIMIT $2
    ) AS dead),
    (SELECT (extract(epoch FROM clock_timestamp() - created_at) * 1000)::bigint FROM (
        SELECT created_at, dead_at FROM semel_outbox WHERE stream = $1 AND sent_at IS NULL
        ORDER BY place LIMIT 2 * $2
    ) AS first WHERE dead_at IS NULL LIMIT 1)
