-- Puts a message off, or gives it up. ?1 id, ?2 whether the try counts, ?3 reason, ?4 due, ?5 dead since, or NULL.
UPDATE semel_outbox SET attempts = attempts + ?2, error = ?3, due_at = ?4, dead_at = ?5 WHERE id = ?1
