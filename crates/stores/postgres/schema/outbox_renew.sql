-- Renews what a process still holds, and says that it is there: other processes count it as long as it publishes.
-- $1 stream, $2 process, $3 milliseconds.
WITH there AS (
    UPDATE semel_outbox_processes SET until = clock_timestamp() + $3::bigint * interval '1 millisecond'
    WHERE stream = $1::text AND process = $2::text AND until > clock_timestamp()
)
UPDATE semel_outbox_leases SET until = clock_timestamp() + $3 * interval '1 millisecond'
WHERE stream = $1 AND holder = $2 AND until > clock_timestamp()
RETURNING part, token
