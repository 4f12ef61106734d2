SELECT count(*) FROM semel_parked
