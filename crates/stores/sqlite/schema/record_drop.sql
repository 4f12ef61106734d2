DELETE FROM semel_records WHERE seq = ?1
