-- Removes what was published long ago. ? stream, ? milliseconds, ? at most.
DELETE message FROM (
    SELECT id FROM semel_outbox FORCE INDEX (pending)
    WHERE stream = ? AND sent_at < @semel.now - ? ORDER BY sent_at LIMIT ?
) AS old STRAIGHT_JOIN semel_outbox AS message FORCE INDEX (PRIMARY) ON message.id = old.id
WHERE message.sent_at IS NOT NULL
