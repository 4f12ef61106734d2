-- Dead messages with an order key, by its bytes and their places: no index has whole order keys, so that all dead ones
-- are read. ? stream, ? the order key to go on behind, ? the same, ? the place to go on behind, ? at most.
SELECT id, order_key, place, attempts, COALESCE(error, ''), created_at, dead_at, bytes
FROM semel_outbox FORCE INDEX (pending)
WHERE stream = ? AND sent_at IS NULL AND due_at = 9223372036854775807 AND order_key IS NOT NULL
  AND (CAST(order_key AS BINARY) > ? OR CAST(order_key AS BINARY) = ? AND place > ?)
ORDER BY CAST(order_key AS BINARY), place LIMIT ?
