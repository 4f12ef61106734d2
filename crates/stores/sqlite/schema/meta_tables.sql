-- How many tables of ours there are, and whether the one that says the format is among them. An outbox and
-- a journal of producers are apart.
SELECT count(*), coalesce(sum(name = 'semel_meta'), 0) FROM sqlite_schema
WHERE type = 'table' AND name GLOB 'semel_*' AND name NOT GLOB 'semel_outbox*' AND name NOT GLOB 'semel_producer*'
