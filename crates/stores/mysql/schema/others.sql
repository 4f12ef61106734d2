-- Records as they stand, but for those that this call has just inserted with the tokens that it drew. ? whether
-- outcomes are wanted, twice; ? ids; ? how many tokens insertions may have taken.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
IF(?, codec, NULL), IF(?, outcome, NULL), revision, id
FROM semel_records FORCE INDEX (PRIMARY)
WHERE id IN (?) AND token NOT BETWEEN @semel.token AND @semel.token + ? - 1
