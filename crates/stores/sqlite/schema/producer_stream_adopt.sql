-- A stream that begins at a sequence. ?1 producer, ?2 stream, ?3 target, ?4 first.
INSERT INTO semel_producer_streams (producer, stream, target, next, confirmed, released)
VALUES (?1, ?2, ?3, ?4, ?4 - 1, ?4 - 1)
ON CONFLICT (producer, stream) DO NOTHING
