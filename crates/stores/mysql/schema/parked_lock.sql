SELECT seq, tenant, operation, `key`, reason, detail, transport, coordinates, since, '', headers, id
FROM semel_parked WHERE id IN (?) ORDER BY id FOR UPDATE
