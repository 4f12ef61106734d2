-- Gives everything back. $1 stream, $2 process.
WITH given AS (
    UPDATE semel_outbox_leases SET holder = NULL, until = '-infinity', token = token + 1
    WHERE stream = $1::text AND holder = $2::text
)
DELETE FROM semel_outbox_processes WHERE stream = $1 AND process = $2
