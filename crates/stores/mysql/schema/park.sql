-- Keeps one message unless it is there. ? id, since, tenant, operation, key, reason, detail, transport,
-- coordinates, headers, payload.
INSERT INTO semel_parked (id, since, tenant, operation, `key`, reason, detail, transport, coordinates,
headers, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE id = semel_parked.id
