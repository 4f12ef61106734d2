-- The inputs that were used longest ago. ? producer, stream, producer, stream, how many others are kept.
DELETE FROM semel_producer_inputs WHERE producer = ? AND stream = ? AND place < (SELECT place FROM (
SELECT place FROM semel_producer_inputs WHERE producer = ? AND stream = ? ORDER BY place DESC LIMIT 1 OFFSET ?) AS oldest)
