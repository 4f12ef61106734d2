-- Removes published messages. ? ids.
DELETE message FROM semel_outbox AS message FORCE INDEX (PRIMARY) WHERE message.id IN (?) AND message.sent_at IS NULL
