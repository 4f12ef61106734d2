SELECT count(*) FROM semel_entities
