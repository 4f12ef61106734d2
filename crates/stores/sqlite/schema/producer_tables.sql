-- Whether there is a journal of producers.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'semel_producer_format'
