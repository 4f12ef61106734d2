-- The digests that came longest ago. ? producer, stream, producer, stream, how many others are kept.
DELETE FROM semel_ingest_digests WHERE producer = ? AND stream = ? AND place < (SELECT place FROM (
SELECT place FROM semel_ingest_digests WHERE producer = ? AND stream = ? ORDER BY place DESC LIMIT 1 OFFSET ?) AS oldest)
