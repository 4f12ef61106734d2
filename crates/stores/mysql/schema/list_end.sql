-- The id that ends a page with a filter. ? conditions, ? rows before it.
SELECT id FROM semel_records FORCE INDEX (PRIMARY) WHERE ? ORDER BY id LIMIT 1 OFFSET ?
