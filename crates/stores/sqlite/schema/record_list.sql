-- One page in the order of creation. ?1 after, ?2 scope or NULL, ?3 only repeated, ?4 at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, NULL, NULL, seq, tenant, operation, key
FROM semel_records JOIN semel_scopes USING (scope)
WHERE seq > ?1 AND (?2 IS NULL OR scope = ?2) AND (NOT ?3 OR repeats > 0)
ORDER BY seq LIMIT ?4
