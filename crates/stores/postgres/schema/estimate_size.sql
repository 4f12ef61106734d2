-- Of the parked and of the entities, how many there are, if they are fewer than $1, and the last of their $1 lowest ids;
-- the audit trail, of which nothing is removed, by its numbers; and the bytes on disk.
SELECT (SELECT count(*) FROM (SELECT FROM semel.parked LIMIT $1::bigint) AS counted),
       (SELECT id FROM (SELECT id FROM semel.parked ORDER BY id LIMIT $1::bigint) AS lowest ORDER BY id DESC LIMIT 1),
       (SELECT count(*) FROM (SELECT FROM semel.entities LIMIT $1::bigint) AS counted),
       (SELECT id FROM (SELECT id FROM semel.entities ORDER BY id LIMIT $1::bigint) AS lowest ORDER BY id DESC LIMIT 1),
       coalesce((SELECT max(seq) FROM semel.audit) - (SELECT min(seq) FROM semel.audit) + 1, 0),
       (SELECT sum(pg_total_relation_size(name::regclass))::bigint
        FROM unnest(ARRAY['semel.records', 'semel.entities', 'semel.parked', 'semel.audit', 'semel.marks',
                          'semel.scopes', 'semel.meta']) AS tables (name))
