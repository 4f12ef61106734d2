-- Gives a partition back. ?1 stream, ?2 process, ?3 partition.
UPDATE semel_outbox_leases SET holder = NULL, until = 0, token = token + 1
WHERE stream = ?1 AND holder = ?2 AND part = ?3
