-- The message that ends a page with a filter. ? conditions, ? rows before it.
SELECT seq FROM semel_parked WHERE ? ORDER BY seq LIMIT 1 OFFSET ?
