-- Whether anything was published long ago. ?1 stream, ?2 the time.
SELECT EXISTS (SELECT 1 FROM semel_outbox WHERE stream = ?1 AND sent_at < ?2)
