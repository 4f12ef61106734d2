INSERT INTO semel_audit (at, who, reason, action, tenant, operation, `key`, was, became) VALUES ?
