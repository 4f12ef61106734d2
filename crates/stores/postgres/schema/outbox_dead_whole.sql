-- One dead message: the columns of a list, then those that a relay reads. $1 stream, $2 id.
SELECT id::text, order_key, place, attempts, coalesce(error, ''),
       (extract(epoch FROM created_at) * 1000)::bigint, (extract(epoch FROM dead_at) * 1000)::bigint,
       octet_length(payload)::bigint, part, headers::text, payload
FROM semel_outbox
WHERE stream = $1::text AND id = $2::text::uuid AND sent_at IS NULL AND dead_at IS NOT NULL
