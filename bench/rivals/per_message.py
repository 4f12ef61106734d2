"""What people write today: look the key up, insert the row and the key, commit, per message."""

import json
import sqlite3
import sys

path, database = sys.argv[1], sys.argv[2]
connection = sqlite3.connect(database, isolation_level=None)
connection.execute("pragma journal_mode = wal")
connection.execute("pragma synchronous = full")
connection.execute("create table charges (id text primary key, amount integer, currency text)")
connection.execute("create table processed (key text primary key, at real)")
for line in open(path, "rb"):
    message = json.loads(line)
    connection.execute("begin immediate")
    seen = connection.execute("select 1 from processed where key = ?", (message["id"],)).fetchone()
    if seen is None:
        connection.execute(
            "insert into charges values (?, ?, ?)",
            (message["id"], message["amount"], message["currency"]),
        )
        connection.execute("insert into processed values (?, unixepoch())", (message["id"],))
    connection.execute("commit")
