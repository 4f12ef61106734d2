-- Gives everything back. ? stream, ? process, and the same again.
UPDATE semel_outbox_leases SET holder = NULL, until = 0, token = token + 1 WHERE stream = ? AND holder = ?;
DELETE FROM semel_outbox_processes WHERE stream = ? AND process = ?
