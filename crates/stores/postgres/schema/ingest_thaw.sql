-- A row if there is the producer. $1 producer.
UPDATE semel.ingest_producers SET frozen = false WHERE producer = $1::text RETURNING true
