-- ? producer, stream, digest.
SELECT 1 FROM semel_ingest_digests WHERE producer = ? AND stream = ? AND digest = ?
