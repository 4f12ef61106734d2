-- A scope of these, if one is stored. $1 tenant or NULL, $2 operation or NULL.
SELECT scope FROM semel.scopes
WHERE ($1::text IS NULL OR tenant = $1::text) AND ($2::text IS NULL OR operation = $2::text)
LIMIT 1
