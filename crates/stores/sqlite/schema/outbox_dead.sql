-- Dead messages without an order key, by their places. ?1 stream, ?2 the place to go on behind, ?3 at most.
SELECT id, order_key, place, attempts, coalesce(error, ''), created_at, dead_at, length(CAST(payload AS BLOB))
FROM semel_outbox
WHERE stream = ?1 AND order_key IS NULL AND place > ?2
  AND due_at IS NOT NULL AND sent_at IS NULL AND dead_at IS NOT NULL
ORDER BY place LIMIT ?3
