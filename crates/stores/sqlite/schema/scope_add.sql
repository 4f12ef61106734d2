INSERT INTO semel_scopes (tenant, operation) VALUES (?1, ?2)
