-- ? producer.
UPDATE semel_ingest_producers SET frozen = 0 WHERE producer = ?
