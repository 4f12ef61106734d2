-- Removes what was published long ago. $1 stream, $2 milliseconds, $3 at most.
WITH old AS MATERIALIZED (
    SELECT id FROM semel_outbox
    WHERE stream = $1::text AND sent_at < clock_timestamp() - $2::bigint * interval '1 millisecond'
    ORDER BY sent_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM semel_outbox USING old WHERE semel_outbox.id = old.id RETURNING 1
)
SELECT count(*) FROM gone
