-- Undoes an insertion of ours. ? id, ? token.
DELETE FROM semel_records WHERE id = ? AND token = ? AND revision = token << 20
