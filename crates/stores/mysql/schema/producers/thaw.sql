-- ? producer.
UPDATE semel_producers SET frozen = 0 WHERE producer = ?
