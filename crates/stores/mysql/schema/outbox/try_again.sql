-- Lets relays try messages again, in their places. ? ids.
UPDATE semel_outbox AS message FORCE INDEX (PRIMARY)
SET message.due_at = NULL, message.dead_at = NULL, message.error = NULL, message.attempts = 0
WHERE message.id IN (?)
