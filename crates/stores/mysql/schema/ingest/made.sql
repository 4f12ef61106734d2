-- Ends the making of the tables.
INSERT IGNORE INTO semel_ingest_format (one, format) VALUES (1, 1)
