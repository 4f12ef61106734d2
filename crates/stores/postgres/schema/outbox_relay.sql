-- What relays a stream. The row is locked until the commit, so that one process at a time divides the partitions.
-- $1 stream, $2 relay, $3 sink.
INSERT INTO semel_outbox_relays AS relays (stream, relay, sink) VALUES ($1::text, $2::text, $3::text)
ON CONFLICT (stream) DO UPDATE SET stream = excluded.stream
RETURNING relays.relay, relays.sink
