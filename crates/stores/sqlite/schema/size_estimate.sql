-- The entities by the lowest ids and the last of these; the parked and the audit trail by their numbers, which have gaps
-- where messages were dropped. ?1 how many are counted.
SELECT (SELECT count(*) FROM (SELECT 1 FROM semel_entities LIMIT ?1)),
       (SELECT max(id) FROM (SELECT id FROM semel_entities ORDER BY id LIMIT ?1)),
       (SELECT CASE WHEN count(*) < ?1 THEN count(*)
                    ELSE (SELECT max(seq) FROM semel_parked) - (SELECT min(seq) FROM semel_parked) + 1 END
        FROM (SELECT 1 FROM semel_parked LIMIT ?1)),
       (SELECT CASE WHEN count(*) < ?1 THEN count(*)
                    ELSE (SELECT max(seq) FROM semel_audit) - (SELECT min(seq) FROM semel_audit) + 1 END
        FROM (SELECT 1 FROM semel_audit LIMIT ?1))
