-- ?1 now, ?2 how many
SELECT state, count(*), sum(state IN (3, 4) AND due IS NOT NULL AND due <= ?1), max(tag)
FROM (SELECT state, due, tag FROM semel_records ORDER BY tag LIMIT ?2) GROUP BY state
