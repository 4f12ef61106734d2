-- Removes published messages. $1 ids.
WITH gone AS (
    DELETE FROM semel_outbox WHERE id = ANY ($1::text[]::uuid[]) AND sent_at IS NULL RETURNING 1
)
SELECT count(*) FROM gone
