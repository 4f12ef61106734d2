-- Locks the row of a producer, which is made where there is none. ? producer.
INSERT INTO semel_ingest_producers (producer, epoch) VALUES (?, 0) ON DUPLICATE KEY UPDATE epoch = epoch
