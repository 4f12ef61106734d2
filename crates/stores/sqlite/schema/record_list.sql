-- The records in the order of creation. ?1 after, ?2 at most. The caller filters them.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, NULL, NULL, seq, tenant, operation, key
FROM semel_records JOIN semel_scopes USING (scope)
WHERE seq > ?1
ORDER BY seq LIMIT ?2
