-- As record_list.sql, for one state ?5 that is not completed: by the index of what is open.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, NULL, NULL, seq, tenant, operation, key
FROM semel_records INDEXED BY semel_records_open JOIN semel_scopes USING (scope)
WHERE seq > ?1 AND (?2 IS NULL OR scope = ?2) AND (NOT ?3 OR repeats > 0)
  AND state = ?5 AND state <> 3
ORDER BY seq LIMIT ?4
