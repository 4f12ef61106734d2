UPDATE semel_records SET token = @semel.token, revision = @semel.token << 20 WHERE id = ? AND token = 0 AND claim = ?
