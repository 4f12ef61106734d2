SELECT scope, tenant, operation FROM semel_scopes
