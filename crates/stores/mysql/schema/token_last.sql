SELECT block, used FROM semel_tokens ORDER BY block DESC LIMIT 1 ?
