-- One page of records in the order of their ids. ? which index, ? conditions, ? at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
NULL, NULL, revision, id, tenant, operation, `key`
FROM semel_records FORCE INDEX (?) WHERE ? ORDER BY id LIMIT ?
