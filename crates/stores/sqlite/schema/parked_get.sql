SELECT seq, tenant, operation, key, reason, detail, transport, coordinates, since, payload, headers
FROM semel_parked JOIN semel_scopes USING (scope)
WHERE id = ?1
