SET @semel.token = NULL
