-- ?1 producer, ?2 stream.
DELETE FROM semel_producer_inputs WHERE producer = ?1 AND stream = ?2
