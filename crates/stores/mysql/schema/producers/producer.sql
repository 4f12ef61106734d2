-- ? producer.
SELECT id, epoch, frozen FROM semel_producers WHERE producer = ?
