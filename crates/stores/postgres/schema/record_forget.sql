-- Removes what counts as absent of these ids. $1 now or NULL.
WITH removed AS (
    DELETE FROM semel.records
    WHERE id = ANY ($2::bytea[]) AND state IN (3, 4) AND NOT held
      AND at + kept + kept / 8 + 1000
          <= coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    RETURNING token
), raised AS (
    UPDATE semel.meta SET value = highest.token
    FROM (SELECT max(token) AS token FROM removed) AS highest
    WHERE name = 'floor' AND value < highest.token
)
SELECT true FROM removed
