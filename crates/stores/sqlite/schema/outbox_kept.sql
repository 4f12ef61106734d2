-- Marks a published message, which is kept for a while. ?1 id, ?2 now.
UPDATE semel_outbox SET sent_at = ?2, due_at = NULL, dead_at = NULL, error = NULL WHERE id = ?1 AND sent_at IS NULL
