-- Removes records whose revision still stands; answers with their ids.
DELETE FROM semel.records
USING unnest($1::bytea[], $2::bigint[]) AS asked (id, revision)
WHERE records.id = asked.id AND records.revision = asked.revision
RETURNING records.id
