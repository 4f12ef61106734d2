UPDATE semel_meta SET value = ?1 WHERE name = 'token'
