-- ? the names of the tables.
SELECT CAST(COALESCE(SUM(data_length + index_length), 0) AS UNSIGNED) FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN (?)
