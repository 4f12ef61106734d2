-- Lets out what was kept until now. ? producer.
UPDATE semel_ingest_streams SET released = next - 1 WHERE producer = ?
