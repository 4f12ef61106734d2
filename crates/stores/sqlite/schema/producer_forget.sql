-- Batches that are confirmed whole. ?1 producer, ?2 stream, ?3 confirmed.
DELETE FROM semel_producer_batches WHERE producer = ?1 AND stream = ?2 AND first <= ?3 AND first + count - 1 <= ?3
