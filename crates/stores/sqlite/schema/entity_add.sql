INSERT INTO semel_entities (id, scope, entity, applied, holder, holder_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (id) DO NOTHING
