SELECT value FROM semel.meta WHERE name = 'format'
