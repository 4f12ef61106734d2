-- As record_list.sql, for one state ?3 that is not completed: by the index of what is open.
SELECT state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held,
       claimed_at, past, members, NULL, NULL, seq, tenant, operation, key
FROM semel_records INDEXED BY semel_records_open JOIN semel_scopes USING (scope)
WHERE seq > ?1 AND state = ?3 AND state <> 3
ORDER BY seq LIMIT ?2
