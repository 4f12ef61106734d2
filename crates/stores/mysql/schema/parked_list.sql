-- One page in the order of arrival. ? conditions, ? at most.
SELECT seq, tenant, operation, `key`, reason, detail, transport, coordinates, since, payload, headers
FROM semel_parked WHERE ? ORDER BY seq LIMIT ?
