SELECT state, count(*) FROM semel_records GROUP BY state
