-- One page of records, in the order of their ids.
-- $1 after, $2 scope or NULL, $3 state or NULL, $4 only repeated, $5 at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt, created_at,
       started_at, error, fingerprint, transport, entity, version, held, claimed_at, past, members,
       NULL::integer, NULL::bytea, revision, id, tenant, operation, key
FROM semel.records JOIN semel.scopes USING (scope)
WHERE id > $1::bytea AND ($2::integer IS NULL OR scope = $2::integer)
  AND ($3::integer IS NULL OR state = $3::integer) AND (NOT $4::boolean OR repeats > 0)
ORDER BY id LIMIT $5::bigint
