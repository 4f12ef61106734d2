-- What relays a stream. ?1 stream, ?2 relay, ?3 sink.
INSERT INTO semel_outbox_relays (stream, relay, sink) VALUES (?1, ?2, ?3)
ON CONFLICT (stream) DO UPDATE SET stream = excluded.stream
RETURNING relay, sink
