-- ?1 producer, ?2 stream, ?3 digest.
SELECT read, bytes, whole FROM semel_producer_inputs WHERE producer = ?1 AND stream = ?2 AND digest = ?3
