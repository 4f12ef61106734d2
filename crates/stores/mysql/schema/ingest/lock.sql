-- Keeps others from changing anything of the producer until the commit. ? producer.
SELECT epoch, frozen FROM semel_ingest_producers WHERE producer = ? FOR UPDATE
