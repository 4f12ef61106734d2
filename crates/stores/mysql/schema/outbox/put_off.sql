-- Puts a message off, or gives it up, if its partition is still leased to the caller. ? one if the try counts, ? reason,
-- ? milliseconds until the next try or NULL, ? the same, ? id, ? stream, ? process, ? partition, ? token.
UPDATE semel_outbox AS message FORCE INDEX (PRIMARY)
JOIN semel_outbox_leases AS lease ON lease.stream = message.stream AND lease.part = message.part
SET message.attempts = message.attempts + ?, message.error = ?,
    message.due_at = COALESCE(@semel.now + ?, 9223372036854775807),
    message.dead_at = IF(? IS NULL, @semel.now, NULL)
WHERE message.id = ? AND message.sent_at IS NULL
  AND lease.stream = ? AND lease.holder = ? AND lease.part = ? AND lease.token = ? AND lease.until > @semel.now
