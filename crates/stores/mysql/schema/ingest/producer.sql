-- ? producer.
SELECT epoch, frozen FROM semel_ingest_producers WHERE producer = ?
