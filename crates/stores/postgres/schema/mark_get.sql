SELECT value FROM semel.marks WHERE name = $1::text
