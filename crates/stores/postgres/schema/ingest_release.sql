-- Lets out what was kept until now. A row if there is the producer, which is locked first. $1 producer.
WITH own AS (
    SELECT producer FROM semel.ingest_producers WHERE producer = $1::text FOR NO KEY UPDATE
), released AS (
    UPDATE semel.ingest_streams AS streams SET released = streams.next - 1 FROM own
    WHERE streams.producer = own.producer
)
SELECT true FROM own
