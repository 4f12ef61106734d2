-- The entry that ends a page with a filter. ? conditions, ? rows before it.
SELECT seq FROM semel_audit WHERE ? ORDER BY seq LIMIT 1 OFFSET ?
