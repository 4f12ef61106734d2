-- ?1 producer, ?2 stream, ?3 next, ?4 confirmed.
UPDATE semel_producer_streams SET next = ?3, confirmed = max(confirmed, min(?4, ?3 - 1))
WHERE producer = ?1 AND stream = ?2
