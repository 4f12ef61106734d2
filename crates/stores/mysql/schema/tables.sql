-- Our tables, as far as there are any. ? their names.
SELECT table_name AS name, engine AS engine FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN (?) AND table_type = 'BASE TABLE'
