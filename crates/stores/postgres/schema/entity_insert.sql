-- Writes entities that nothing is remembered of; answers with their ids.
INSERT INTO semel.entities (id, scope, entity, applied, holder, holder_until)
SELECT * FROM unnest($1::bytea[], $2::integer[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bigint[])
         AS asked (id, scope, entity, applied, holder, holder_until)
ORDER BY id
ON CONFLICT (id) DO NOTHING
RETURNING id
