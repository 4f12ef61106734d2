-- Marks published messages, which are kept for a while. ? ids.
UPDATE semel_outbox AS message FORCE INDEX (PRIMARY)
SET message.sent_at = @semel.now, message.due_at = NULL, message.dead_at = NULL, message.error = NULL
WHERE message.id IN (?) AND message.sent_at IS NULL
