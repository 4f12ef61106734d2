-- Counts the live processes at a stream, one left out. ? stream, ? process.
SELECT COUNT(*) FROM semel_outbox_processes WHERE stream = ? AND process <> ? AND until > @semel.now
