-- ?1 now, ?2 how many
SELECT state, count(*), sum(state = 4 AND due IS NOT NULL AND due <= ?1), NULL
FROM (SELECT state, due FROM semel_records WHERE state <> 3 LIMIT ?2) GROUP BY state
