-- Keeps others from changing anything of the producer until the commit. ? producer.
SELECT id, epoch, frozen FROM semel_producers WHERE producer = ? FOR UPDATE
