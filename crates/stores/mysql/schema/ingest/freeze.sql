-- Keeps what is not settled. ? producer, producer.
UPDATE semel_ingest_producers SET frozen = 1 WHERE producer = ?;
UPDATE semel_ingest_streams SET released = confirmed WHERE producer = ?
