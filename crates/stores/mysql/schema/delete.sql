DELETE FROM semel_records WHERE id = ? AND revision = ?
