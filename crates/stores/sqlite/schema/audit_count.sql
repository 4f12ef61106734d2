SELECT count(*) FROM semel_audit
