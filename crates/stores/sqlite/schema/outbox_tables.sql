-- Whether there is an outbox.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'semel_outbox_format'
