-- ?1 producer, ?2 stream.
DELETE FROM semel_producer_streams WHERE producer = ?1 AND stream = ?2
