-- Lets relays try a dead message again, in its place. ?1 stream, ?2 id.
UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, error = NULL, attempts = 0
WHERE stream = ?1 AND id = ?2 AND sent_at IS NULL AND dead_at IS NOT NULL
