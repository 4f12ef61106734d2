-- Removes what was published long ago. ?1 stream, ?2 the time, ?3 at most.
DELETE FROM semel_outbox WHERE place IN (
    SELECT place FROM semel_outbox WHERE stream = ?1 AND sent_at < ?2 ORDER BY sent_at LIMIT ?3
)
