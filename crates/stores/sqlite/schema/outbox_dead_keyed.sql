-- Dead messages with an order key, by that and their places. ?1 stream, ?2 the order key and ?3 the place to go on
-- behind, ?4 at most.
SELECT id, order_key, place, attempts, coalesce(error, ''), created_at, dead_at, length(CAST(payload AS BLOB))
FROM semel_outbox
WHERE stream = ?1 AND order_key >= ?2 AND (order_key > ?2 OR place > ?3)
  AND due_at IS NOT NULL AND sent_at IS NULL AND dead_at IS NOT NULL
ORDER BY order_key, place LIMIT ?4
