-- Locks those of some messages that are dead. ? stream, ? ids.
SELECT id FROM semel_outbox FORCE INDEX (PRIMARY)
WHERE stream = ? AND id IN (?) AND sent_at IS NULL AND dead_at IS NOT NULL FOR UPDATE
