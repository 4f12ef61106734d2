-- Dead messages without an order key, by their places. ? stream, ? the place to go on behind, ? at most.
SELECT id, order_key, place, attempts, COALESCE(error, ''), created_at, dead_at, bytes
FROM semel_outbox FORCE INDEX (pending)
WHERE stream = ? AND sent_at IS NULL AND due_at = 9223372036854775807 AND place > ? AND order_key IS NULL
ORDER BY place LIMIT ?
