INSERT INTO semel_marks (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = semel_marks.value
