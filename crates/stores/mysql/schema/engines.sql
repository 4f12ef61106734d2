-- Tables of a database without transactions. Views have no engine. ? the database.
SELECT table_name AS name, engine AS engine FROM information_schema.tables
WHERE table_schema = ? AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'
