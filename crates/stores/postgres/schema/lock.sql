-- Reads what there is of these ids and keeps others from changing it until the transaction ends,
-- in the order of the ids, so that two transactions cannot wait for each other.
-- $1 whether outcomes are wanted.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt, created_at,
       started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       CASE WHEN $1::boolean THEN codec END, CASE WHEN $1::boolean THEN outcome END, revision, id
FROM semel.records
WHERE id = ANY($2::bytea[])
ORDER BY id
FOR UPDATE
