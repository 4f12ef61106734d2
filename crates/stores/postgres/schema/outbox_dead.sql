-- Dead messages without an order key, by their places. $1 stream, $2 the place to go on behind, $3 at most.
SELECT id::text, order_key, place, attempts, coalesce(error, ''),
       (extract(epoch FROM created_at) * 1000)::bigint, (extract(epoch FROM dead_at) * 1000)::bigint,
       octet_length(payload)::bigint
FROM semel_outbox
WHERE stream = $1::text AND order_key IS NULL AND place > $2::bigint
  AND due_at IS NOT NULL AND sent_at IS NULL AND dead_at IS NOT NULL
ORDER BY place LIMIT $3::bigint
