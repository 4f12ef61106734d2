UPDATE semel_records SET token = @semel.token WHERE id = ? AND token = 0 AND claim = ?
