-- One page. ?1 after or NULL, ?2 at most.
SELECT name, value FROM semel_marks WHERE ?1 IS NULL OR name > ?1 ORDER BY name LIMIT ?2
