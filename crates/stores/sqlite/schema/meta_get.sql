SELECT value FROM semel_meta WHERE name = ?1
