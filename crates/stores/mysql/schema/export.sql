-- One page of records with their outcomes. ? after, ? at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
codec, outcome, revision, id, tenant, operation, `key`
FROM semel_records FORCE INDEX (PRIMARY) WHERE id > ? ORDER BY id LIMIT ?
