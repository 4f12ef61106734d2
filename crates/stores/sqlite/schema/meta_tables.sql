-- How many tables of ours there are, and whether the one that says the format is among them.
SELECT count(*), coalesce(sum(name = 'semel_meta'), 0) FROM sqlite_schema WHERE type = 'table' AND name GLOB 'semel_*'
