-- ?1 producer, ?2 stream, ?3 begun, if the stream has none, ?4 heard, ?5 next.
INSERT INTO semel_producer_times (producer, stream, begun, heard, next) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (producer, stream) DO UPDATE SET heard = max(heard, excluded.heard), next = excluded.next
