-- Writes entities that the transaction has locked.
UPDATE semel.entities
SET applied = asked.applied, holder = asked.holder, holder_until = asked.holder_until
FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bigint[])
     AS asked (id, applied, holder, holder_until)
WHERE entities.id = asked.id
