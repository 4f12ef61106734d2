-- Lets relays try dead messages again, in their places, and wakes them. $1 stream, $2 ids.
WITH changed AS (
    UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, error = NULL, attempts = 0
    WHERE stream = $1::text AND id = ANY ($2::text[]::uuid[]) AND sent_at IS NULL AND dead_at IS NOT NULL
    RETURNING id
)
SELECT id::text, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_notify('semel_outbox', '') IS NULL
FROM changed
