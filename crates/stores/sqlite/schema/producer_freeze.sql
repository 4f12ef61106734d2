-- ?1 producer, ?2 whether.
UPDATE semel_producers SET frozen = ?2 WHERE producer = ?1
