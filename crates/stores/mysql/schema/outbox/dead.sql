-- Dead messages without an order key, by their places, which those of one statement share, and their ids. ? stream,
-- ? the place to go on behind, ? the same, ? the id to go on behind, ? at most.
SELECT id, order_key, place, attempts, COALESCE(error, ''), created_at, dead_at, bytes
FROM semel_outbox FORCE INDEX (pending)
WHERE stream = ? AND sent_at IS NULL AND due_at = 9223372036854775807 AND order_key IS NULL
  AND place >= ? AND (place > ? OR id > ?)
ORDER BY place, id LIMIT ?
