-- Counts the live processes at a stream, this one left out. ?1 stream, ?2 process, ?3 now.
SELECT count(*) FROM semel_outbox_processes WHERE stream = ?1 AND process <> ?2 AND until > ?3
