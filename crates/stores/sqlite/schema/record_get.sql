-- Several operations may share a tag; the caller compares the rest. The outcome is read only where
-- it is wanted (?2), since it may lie on pages of its own.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, CASE WHEN ?2 THEN codec END, CASE WHEN ?2 THEN outcome END,
       seq, rest
FROM semel_records WHERE tag = ?1
