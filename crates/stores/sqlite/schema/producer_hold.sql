-- What is not confirmed is kept. ?1 producer.
UPDATE semel_producer_streams SET released = confirmed WHERE producer = ?1
