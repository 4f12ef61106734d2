-- The parked, the entities, the audit trail, and the bytes on disk. $1 how many of each are counted: of more, it is the
-- server's own estimate.
SELECT (SELECT CASE WHEN count(*) < $1::bigint THEN count(*)
                    ELSE greatest(count(*), (SELECT reltuples::bigint FROM pg_class WHERE oid = 'semel.parked'::regclass)) END
        FROM (SELECT FROM semel.parked LIMIT $1::bigint) AS counted),
       (SELECT CASE WHEN count(*) < $1::bigint THEN count(*)
                    ELSE greatest(count(*), (SELECT reltuples::bigint FROM pg_class WHERE oid = 'semel.entities'::regclass)) END
        FROM (SELECT FROM semel.entities LIMIT $1::bigint) AS counted),
       (SELECT CASE WHEN count(*) < $1::bigint THEN count(*)
                    ELSE greatest(count(*), (SELECT reltuples::bigint FROM pg_class WHERE oid = 'semel.audit'::regclass)) END
        FROM (SELECT FROM semel.audit LIMIT $1::bigint) AS counted),
       (SELECT sum(pg_total_relation_size(name::regclass))::bigint
        FROM unnest(ARRAY['semel.records', 'semel.entities', 'semel.parked', 'semel.audit', 'semel.marks',
                          'semel.scopes', 'semel.meta']) AS tables (name))
