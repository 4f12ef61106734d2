SELECT id, applied, holder, holder_until
FROM semel.entities
WHERE id = ANY($1::bytea[])
ORDER BY id
FOR UPDATE
