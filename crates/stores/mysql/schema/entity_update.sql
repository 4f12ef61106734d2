UPDATE semel_entities SET applied = ?, holder = ?, holder_until = ? WHERE id = ?
