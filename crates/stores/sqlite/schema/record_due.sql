SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, codec, outcome, seq
FROM semel_records WHERE due <= ?1 ORDER BY due LIMIT ?2
