-- One page. ? after, ? at most. A row that says nothing is there for its lock alone.
SELECT id, applied, holder, holder_until, tenant, operation, entity FROM semel_entities
WHERE id > ? AND (applied IS NOT NULL OR holder IS NOT NULL) ORDER BY id LIMIT ?
