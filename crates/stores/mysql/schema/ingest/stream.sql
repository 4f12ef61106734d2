-- ? producer, stream.
SELECT begun, next, confirmed, released FROM semel_ingest_streams WHERE producer = ? AND stream = ?
