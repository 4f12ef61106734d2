-- A batch behind the next sequence. ? how many, producer, stream, at, size, body.
INSERT INTO semel_ingest_batches (last, producer, stream, first, at, size, body)
SELECT @semel.own + ? - 1, ?, ?, @semel.own, ?, ?, ? FROM DUAL WHERE @semel.own IS NOT NULL
