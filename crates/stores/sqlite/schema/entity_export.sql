-- One page. ?1 after, ?2 at most.
SELECT id, scope, entity, applied, holder, holder_until
FROM semel_entities WHERE id > ?1 ORDER BY id LIMIT ?2
