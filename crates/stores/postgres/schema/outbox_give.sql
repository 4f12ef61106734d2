-- Gives partitions back. $1 stream, $2 process, $3 partitions.
UPDATE semel_outbox_leases SET holder = NULL, until = '-infinity', token = token + 1
WHERE stream = $1::text AND holder = $2::text AND part = ANY ($3::smallint[])
