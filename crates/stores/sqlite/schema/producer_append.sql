-- ?1 producer, ?2 stream, ?3 first, ?4 count, ?5 at, ?6 body.
INSERT INTO semel_producer_batches (producer, stream, first, count, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
