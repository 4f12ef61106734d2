-- One page of everything, in the order of creation. ?1 after, ?2 at most.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, codec, outcome, seq, scope, key
FROM semel_records WHERE seq > ?1 ORDER BY seq LIMIT ?2
