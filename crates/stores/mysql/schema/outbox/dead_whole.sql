-- One dead message: the columns of a list, then those that a relay reads. ? stream, ? id.
SELECT id, order_key, place, attempts, COALESCE(error, ''), created_at, dead_at, bytes, part, headers, payload
FROM semel_outbox WHERE stream = ? AND id = ? AND sent_at IS NULL AND dead_at IS NOT NULL
