-- Forgets processes that are gone. ?1 stream, ?2 now.
DELETE FROM semel_outbox_processes WHERE stream = ?1 AND until <= ?2
