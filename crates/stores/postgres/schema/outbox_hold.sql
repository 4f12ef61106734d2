-- Keeps and takes partitions, but for those that their holder renewed just now: that is looked at again once its row is
-- free. $1 stream, $2 process, $3 partitions, $4 milliseconds.
UPDATE semel_outbox_leases SET
    token = token + CASE WHEN holder = $2::text AND until > clock_timestamp() THEN 0 ELSE 1 END,
    holder = $2,
    until = clock_timestamp() + $4::bigint * interval '1 millisecond'
WHERE stream = $1::text AND part = ANY ($3::smallint[])
  AND (holder IS NULL OR holder = $2 OR until <= clock_timestamp())
RETURNING part, token
