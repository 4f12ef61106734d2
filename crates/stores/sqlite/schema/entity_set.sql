INSERT INTO semel_entities (id, scope, entity, applied, holder, holder_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (id) DO UPDATE SET
       applied = excluded.applied, holder = excluded.holder, holder_until = excluded.holder_until
