-- What is to be published next, in its order. One time decides what is due: what comes due within the scan would be left
-- out, and what is behind it would not. ?1 stream, ?2 now.
SELECT message.id, message.place, message.order_key, message.headers, message.attempts, message.payload
FROM semel_outbox AS message
WHERE message.stream = ?1 AND message.sent_at IS NULL AND (message.due_at IS NULL OR message.due_at <= ?2)
  AND NOT EXISTS (
      SELECT 1 FROM semel_outbox AS earlier
      WHERE earlier.stream = message.stream AND earlier.order_key = message.order_key
        AND earlier.sent_at IS NULL AND earlier.due_at > ?2 AND earlier.place < message.place
  )
ORDER BY message.place
