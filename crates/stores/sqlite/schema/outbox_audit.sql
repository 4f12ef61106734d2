-- Whether there is an audit trail in this file.
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'semel_audit'
