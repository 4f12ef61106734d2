SET SESSION auto_increment_increment = 1, auto_increment_offset = 1
