-- One page. $1 after or NULL, $2 at most.
SELECT name, value FROM semel.marks
WHERE $1::text IS NULL OR name > $1::text
ORDER BY name LIMIT $2::bigint
