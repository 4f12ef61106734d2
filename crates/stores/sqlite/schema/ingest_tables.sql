-- Whether there is the table of times.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'semel_producer_times'
