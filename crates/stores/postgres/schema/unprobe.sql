DELETE FROM semel.records WHERE id = ANY ($1::bytea[])
