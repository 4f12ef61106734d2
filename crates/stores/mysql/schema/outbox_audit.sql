-- Adds nothing to the audit trail: fails where there is none, or the user may not write it.
INSERT INTO semel_audit (at, who, reason, action, tenant, operation, `key`, was, became)
SELECT 0, '', '', '', NULL, NULL, NULL, '', '' FROM DUAL WHERE FALSE
