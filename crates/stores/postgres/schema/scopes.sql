SELECT scope, tenant, operation FROM semel.scopes
