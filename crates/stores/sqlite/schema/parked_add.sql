INSERT INTO semel_parked (id, scope, key, reason, detail, transport, coordinates, since, payload,
                          headers)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO NOTHING
