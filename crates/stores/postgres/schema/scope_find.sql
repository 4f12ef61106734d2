SELECT scope FROM semel.scopes WHERE tenant = $1::text AND operation = $2::text
