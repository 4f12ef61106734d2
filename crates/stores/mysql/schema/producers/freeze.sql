-- Keeps what is not confirmed. ? producer, producer.
UPDATE semel_producers SET frozen = 1 WHERE producer = ?;
UPDATE semel_producer_streams SET released = confirmed WHERE producer = ?
