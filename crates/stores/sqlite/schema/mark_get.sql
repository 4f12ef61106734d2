SELECT value FROM semel_marks WHERE name = ?1
