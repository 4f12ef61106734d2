-- Counts by state of what two short indexes have, all that is claimed, released, dead or in doubt: all of them, and those
-- that count as absent. $1 now or NULL, $2 how many of each index.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
), listed AS (
    SELECT state, held, at, kept FROM (
        SELECT state, held, at, kept FROM semel.records WHERE state IN (2, 4, 5) LIMIT $2::bigint
    ) AS open
    UNION ALL
    SELECT state, held, at, kept FROM (
        SELECT state, held, at, kept FROM semel.records WHERE state IN (0, 2) LIMIT $2::bigint
    ) AS quiet WHERE state = 0
)
SELECT state, count(*), count(*) FILTER (WHERE state = 4 AND NOT held AND at + kept + kept / 8 + 1000 <= now)
FROM listed CROSS JOIN clock
GROUP BY state
