-- ? producer, stream, digest.
SELECT read_rows, read_bytes, whole FROM semel_producer_inputs WHERE producer = ? AND stream = ? AND digest = ?
