DELETE FROM semel_parked WHERE id = ?1
