SELECT id, applied, holder, holder_until FROM semel_entities FORCE INDEX (PRIMARY)
WHERE id IN (?) ORDER BY id FOR UPDATE
