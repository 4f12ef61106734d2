-- Adds a partition of a stream. ?1 stream, ?2 partition.
INSERT INTO semel_outbox_leases (stream, part) VALUES (?1, ?2) ON CONFLICT DO NOTHING
