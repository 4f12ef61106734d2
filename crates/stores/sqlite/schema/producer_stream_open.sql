-- The stream of an opening. ?1 producer, ?2 stream, ?3 target.
INSERT INTO semel_producer_streams (producer, stream, target) VALUES (?1, ?2, ?3)
ON CONFLICT (producer, stream) DO UPDATE SET target = excluded.target
