-- Counts by state: all of it, and what of it counts as absent. $1 now or NULL.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
)
SELECT state, count(*),
       count(*) FILTER (WHERE state IN (3, 4) AND NOT held AND at + kept + kept / 8 + 1000 <= now)
FROM semel.records CROSS JOIN clock
GROUP BY state
