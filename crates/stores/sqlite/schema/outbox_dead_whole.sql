-- One dead message: the columns of a list, then those that a relay reads. ?1 stream, ?2 id.
SELECT id, order_key, place, attempts, coalesce(error, ''), created_at, dead_at, length(CAST(payload AS BLOB)),
       headers, payload
FROM semel_outbox WHERE stream = ?1 AND id = ?2 AND sent_at IS NULL AND dead_at IS NOT NULL
