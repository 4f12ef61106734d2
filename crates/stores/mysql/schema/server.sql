SELECT VERSION(), @@max_allowed_packet, @@auto_increment_increment, DATABASE()
