SELECT applied, holder, holder_until FROM semel_entities WHERE id = ?1
