-- Removes a published message. ?1 id.
DELETE FROM semel_outbox WHERE id = ?1 AND sent_at IS NULL
