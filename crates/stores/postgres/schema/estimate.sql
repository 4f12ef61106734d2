-- Counts by state of the records with the lowest ids: all of them, and those that count as absent; and the last of these
-- ids. $1 now or NULL, $2 how many.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), lowest AS MATERIALIZED (
    SELECT id, state, held, at, kept FROM semel.records ORDER BY id LIMIT $2::bigint
)
SELECT state, count(*),
       count(*) FILTER (WHERE state IN (3, 4) AND NOT held AND at + kept + kept / 8 + 1000 <= now),
       (SELECT id FROM lowest ORDER BY id DESC LIMIT 1)
FROM lowest CROSS JOIN clock
GROUP BY state
