-- Keeps and takes partitions. ? process, ? process, ? milliseconds, ? stream, ? partitions, ? process.
UPDATE semel_outbox_leases SET
    token = token + IF(holder = ? AND until > @semel.now, 0, 1),
    holder = ?,
    until = @semel.now + ?
WHERE stream = ? AND part IN (?) AND (holder IS NULL OR holder = ? OR until <= @semel.now)
