-- The order key of a message of a stream that is not published. ?1 id, ?2 stream.
SELECT order_key FROM semel_outbox WHERE id = ?1 AND stream = ?2 AND sent_at IS NULL
