-- A producer. ?1 producer.
SELECT id, epoch, frozen FROM semel_producers WHERE producer = ?1
