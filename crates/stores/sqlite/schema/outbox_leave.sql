-- Gives every partition back. ?1 stream, ?2 process.
UPDATE semel_outbox_leases SET holder = NULL, until = 0, token = token + 1 WHERE stream = ?1 AND holder = ?2
