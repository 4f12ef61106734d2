-- ?1 producer, ?2 stream, ?3 the time.
UPDATE semel_producer_times SET heard = max(heard, ?3) WHERE producer = ?1 AND stream = ?2
