-- A stream. ?1 producer, ?2 stream.
SELECT target, next, confirmed, released FROM semel_producer_streams WHERE producer = ?1 AND stream = ?2
