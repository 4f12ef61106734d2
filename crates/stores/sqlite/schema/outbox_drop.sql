-- Removes a dead message. ?1 stream, ?2 id.
DELETE FROM semel_outbox WHERE stream = ?1 AND id = ?2 AND sent_at IS NULL AND dead_at IS NOT NULL
