-- Removes what has passed its window, the longest due first. $1 now or NULL, $2 at most. Rows that
-- somebody else is at are left to them.
WITH due AS MATERIALIZED (
    SELECT id FROM semel.records
    WHERE due <= coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
      AND state IN (3, 4)
    ORDER BY due LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM semel.records USING due WHERE records.id = due.id
    RETURNING records.token
), raised AS (
    UPDATE semel.meta SET value = highest.token
    FROM (SELECT max(token) AS token FROM removed) AS highest
    WHERE name = 'floor' AND value < highest.token
)
SELECT true FROM removed
