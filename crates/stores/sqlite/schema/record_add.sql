INSERT INTO semel_records
      (state, at, kept, margin, recovery, claim, token, attempts, vanished, repeats, doubt,
       created_at, started_at, error, fingerprint, transport, entity, version, held, claimed_at,
       past, members, codec, outcome, due, tag, rest, scope, key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
        ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
