SELECT scope FROM semel_scopes WHERE tenant = ?1 AND operation = ?2
