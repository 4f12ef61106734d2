-- Makes the rows of the partitions of a stream. ? the rows.
INSERT IGNORE INTO semel_outbox_leases (stream, part) VALUES ?
