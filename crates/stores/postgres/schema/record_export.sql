-- One page of everything, in the order of the ids. $1 after, $2 at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt, created_at,
       started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       codec, outcome, revision, id, tenant, operation, key
FROM semel.records JOIN semel.scopes USING (scope)
WHERE id > $1::bytea
ORDER BY id LIMIT $2::bigint
