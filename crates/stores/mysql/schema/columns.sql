-- Their columns. ? the names of the tables.
SELECT table_name AS name, column_name AS col, collation_name AS collation
FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name IN (?)
