-- A row that was made to be locked, of a producer whose messages are refused. $1 producer.
DELETE FROM semel.ingest_producers WHERE producer = $1::text AND epoch = 0
