SELECT (SELECT count(*) FROM semel.parked),
       (SELECT count(*) FROM semel.entities),
       (SELECT count(*) FROM semel.audit),
       (SELECT sum(pg_total_relation_size(name::regclass))::bigint
        FROM unnest(ARRAY['semel.records', 'semel.entities', 'semel.parked', 'semel.audit', 'semel.marks',
                          'semel.scopes', 'semel.meta']) AS tables (name))
