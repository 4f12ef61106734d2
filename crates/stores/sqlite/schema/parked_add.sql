INSERT INTO semel_parked (id, scope, key, reason, detail, transport, coordinates, since, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING
