-- Compare and set: ? assignments, ? id, ? revision.
UPDATE semel_records SET revision = revision + 1, ? WHERE id = ? AND revision = ?
