-- Marks published messages, which are kept for a while. $1 ids.
WITH kept AS (
    UPDATE semel_outbox SET sent_at = clock_timestamp(), due_at = NULL, dead_at = NULL, error = NULL
    WHERE id = ANY ($1::text[]::uuid[]) AND sent_at IS NULL RETURNING 1
)
SELECT count(*) FROM kept
