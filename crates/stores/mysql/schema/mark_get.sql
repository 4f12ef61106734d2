SELECT value FROM semel_marks WHERE name = ? FOR UPDATE
