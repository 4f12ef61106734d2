-- Lets relays try messages again, in their places. ? ids.
UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, error = NULL, attempts = 0 WHERE id IN (?)
