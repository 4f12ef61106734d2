-- One page. $1 after, $2 at most.
SELECT id, tenant, operation, entity, applied, holder, holder_until
FROM semel.entities JOIN semel.scopes USING (scope)
WHERE id > $1::bytea ORDER BY id LIMIT $2::bigint
