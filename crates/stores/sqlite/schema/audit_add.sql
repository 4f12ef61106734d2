INSERT INTO semel_audit (at, who, reason, action, scope, key, was, became)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
