-- What is due, state by state, the longest due of each first. ? at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
NULL, NULL, revision, id
FROM semel_records FORCE INDEX (state) WHERE state IN (1, 3, 4) AND due <= @semel.now LIMIT ?
