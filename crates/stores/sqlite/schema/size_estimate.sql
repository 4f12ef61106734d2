-- Of the parked and of the entities, how many there are, if they are fewer than ?1, and the last of their ?1 lowest ids;
-- the audit trail, of which nothing is removed, by its numbers.
SELECT (SELECT count(*) FROM (SELECT 1 FROM semel_parked LIMIT ?1)),
       (SELECT max(id) FROM (SELECT id FROM semel_parked ORDER BY id LIMIT ?1)),
       (SELECT count(*) FROM (SELECT 1 FROM semel_entities LIMIT ?1)),
       (SELECT max(id) FROM (SELECT id FROM semel_entities ORDER BY id LIMIT ?1)),
       coalesce((SELECT max(seq) FROM semel_audit) - (SELECT min(seq) FROM semel_audit) + 1, 0)
