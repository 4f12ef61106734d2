-- Rows in the order of record columns, then due, revision, id, tenant, operation, key.
INSERT INTO semel_records (state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats,
doubt, created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
codec, outcome, due, revision, id, tenant, operation, `key`)
VALUES ?
