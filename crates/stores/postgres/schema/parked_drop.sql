-- Removes messages; answers with what was removed.
DELETE FROM semel.parked USING semel.scopes
WHERE id = ANY ($1::bytea[]) AND scopes.scope = parked.scope
RETURNING seq, tenant, operation, key, reason, detail, transport, coordinates, since, payload, headers, id
