-- Whether there is an entry that equals this one in every field.
SELECT 1 FROM semel_audit
WHERE at = ?1 AND who = ?2 AND reason = ?3 AND action = ?4 AND scope IS ?5 AND key IS ?6
  AND was = ?7 AND became = ?8
