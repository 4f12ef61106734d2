UPDATE semel_records SET
       state = ?1, at = ?2, kept = ?3, margin = ?4, recovery = ?5, claim = ?6, token = ?7,
       attempts = ?8, vanished = ?9, repeats = ?10, doubt = ?11, created_at = ?12, started_at = ?13,
       error = ?14, fingerprint = ?15, transport = ?16, entity = ?17, version = ?18, held = ?19,
       claimed_at = ?20, past = ?21, members = ?22, codec = ?23, outcome = ?24, due = ?25
WHERE seq = ?26
