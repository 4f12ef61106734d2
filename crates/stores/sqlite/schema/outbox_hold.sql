-- Keeps or takes a partition. ?1 stream, ?2 process, ?3 partition, ?4 now, ?5 until.
UPDATE semel_outbox_leases SET
    token = token + CASE WHEN holder = ?2 AND until > ?4 THEN 0 ELSE 1 END,
    holder = ?2,
    until = ?5
WHERE stream = ?1 AND part = ?3 AND (holder IS NULL OR holder = ?2 OR until <= ?4)
RETURNING token
