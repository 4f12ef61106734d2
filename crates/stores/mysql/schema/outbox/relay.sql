-- What relays a stream. The row is locked until the commit, so that one process at a time divides the partitions.
-- ? stream, ? relay, ? sink, ? stream.
INSERT INTO semel_outbox_relays (stream, relay, sink) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE relay = semel_outbox_relays.relay;
SELECT relay, sink FROM semel_outbox_relays WHERE stream = ? FOR UPDATE
