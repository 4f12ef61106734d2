SELECT tenant, operation FROM semel_scopes WHERE scope = ?1
