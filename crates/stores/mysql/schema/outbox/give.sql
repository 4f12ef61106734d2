-- Gives partitions back. ? stream, ? process, ? partitions.
UPDATE semel_outbox_leases SET holder = NULL, until = 0, token = token + 1
WHERE stream = ? AND holder = ? AND part IN (?)
