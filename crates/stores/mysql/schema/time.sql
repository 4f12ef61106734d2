SELECT @semel.now
