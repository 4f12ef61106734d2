-- A row if there is the producer. $1 producer.
UPDATE semel.producers SET frozen = false WHERE producer = $1::text RETURNING true
