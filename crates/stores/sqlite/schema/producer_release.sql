-- ?1 producer.
UPDATE semel_producer_streams SET released = next - 1 WHERE producer = ?1
