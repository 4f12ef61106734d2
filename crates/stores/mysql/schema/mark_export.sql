-- One page. ? conditions, ? at most.
SELECT name, value FROM semel_marks WHERE ? ORDER BY name LIMIT ?
