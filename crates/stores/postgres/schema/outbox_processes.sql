-- Counts the live processes at a stream, this one left out. $1 stream, $2 process.
SELECT count(*) FROM semel_outbox_processes
WHERE stream = $1::text AND process <> $2::text AND until > clock_timestamp()
