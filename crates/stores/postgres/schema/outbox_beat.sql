-- Says that a process is there. $1 stream, $2 process, $3 milliseconds.
WITH gone AS (
    DELETE FROM semel_outbox_processes
    WHERE stream = $1::text AND until <= clock_timestamp() AND process <> $2::text
)
INSERT INTO semel_outbox_processes (stream, process, until)
VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 millisecond')
ON CONFLICT (stream, process) DO UPDATE SET until = excluded.until
