-- Tables of the database without transactions. Views have no engine.
SELECT table_name AS name, engine AS engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'
