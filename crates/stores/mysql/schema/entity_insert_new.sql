INSERT INTO semel_entities (id, applied, holder, holder_until, tenant, operation, entity) VALUES ?
ON DUPLICATE KEY UPDATE id = semel_entities.id
