-- ? producer, stream.
SELECT next, confirmed, released, target FROM semel_producer_streams WHERE producer = ? AND stream = ?
