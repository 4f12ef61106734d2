-- ? producer, stream, last, first, at, size, body.
INSERT INTO semel_producer_batches (producer, stream, last, first, at, size, body)
SELECT ?, ?, ?, ?, ?, ?, ? FROM DUAL WHERE @semel.own = 1
