-- Keeps what is not confirmed. A row if there is the producer, which is locked first. $1 producer.
WITH own AS (
    UPDATE semel.producers SET frozen = true WHERE producer = $1::text RETURNING producer
), held AS (
    UPDATE semel.producer_streams AS streams SET released = streams.confirmed FROM own
    WHERE streams.producer = own.producer
)
SELECT true FROM own
