SELECT state, count(*), max(tag) FROM (SELECT state, tag FROM semel_records ORDER BY tag LIMIT ?1) GROUP BY state
