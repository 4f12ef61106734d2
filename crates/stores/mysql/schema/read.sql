-- Records as they stand. ? whether outcomes are wanted, twice; ? ids.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
IF(?, codec, NULL), IF(?, outcome, NULL), revision, id
FROM semel_records FORCE INDEX (PRIMARY) WHERE id IN (?)
