-- Batches with messages behind ?3, in order. ?1 producer, ?2 stream.
SELECT first, count, at, body FROM semel_producer_batches
WHERE producer = ?1 AND stream = ?2 AND first + count > ?3 + 1
ORDER BY first
