SELECT number FROM semel_meta WHERE name = 'format'
