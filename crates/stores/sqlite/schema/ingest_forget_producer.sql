-- A producer without a stream. ?1 producer.
DELETE FROM semel_producers WHERE producer = ?1
AND NOT EXISTS (SELECT 1 FROM semel_producer_streams WHERE producer = ?1)
