-- What relays a stream. The row is locked until the commit, so that one process at a time divides the partitions.
-- A process that stands still until then must not keep the others waiting for longer than its lease.
-- $1 stream, $2 relay, $3 sink, $4 milliseconds of its lease.
INSERT INTO semel_outbox_relays AS relays (stream, relay, sink) VALUES ($1::text, $2::text, $3::text)
ON CONFLICT (stream) DO UPDATE SET stream = excluded.stream
RETURNING relays.relay, relays.sink, set_config('idle_in_transaction_session_timeout', $4::text, true)
