-- Says that a process is gone. ?1 stream, ?2 process.
DELETE FROM semel_outbox_processes WHERE stream = ?1 AND process = ?2
