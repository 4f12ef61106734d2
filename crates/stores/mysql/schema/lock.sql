-- As read.sql, and locks what there is, in the order of the ids.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
IF(?, codec, NULL), IF(?, outcome, NULL), revision, id
FROM semel_records FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE
