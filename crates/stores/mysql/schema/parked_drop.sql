DELETE FROM semel_parked WHERE seq = ?
