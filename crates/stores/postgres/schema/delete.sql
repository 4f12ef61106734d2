-- Removes records whose revision still stands; answers with their ids.
WITH removed AS (
    DELETE FROM semel.records
    USING unnest($1::bytea[], $2::bigint[]) AS asked (id, revision)
    WHERE records.id = asked.id AND records.revision = asked.revision
    RETURNING records.id, records.token
), raised AS (
    UPDATE semel.meta SET value = highest.token
    FROM (SELECT max(token) AS token FROM removed) AS highest
    WHERE name = 'floor' AND value < highest.token
)
SELECT id FROM removed
