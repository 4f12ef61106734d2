-- Keeps what is not settled. A row if there is the producer, which is locked first. $1 producer.
WITH own AS (
    UPDATE semel.ingest_producers SET frozen = true WHERE producer = $1::text RETURNING producer
), held AS (
    UPDATE semel.ingest_streams AS streams SET released = streams.confirmed FROM own
    WHERE streams.producer = own.producer
)
SELECT true FROM own
