# Called for each message: the message on standard input, who asks in the environment.
# Exit code 0 is done, and what is printed is the outcome; 75 is "not applied, try again"; others are dead.

message=$(cat)

# The same on every attempt. Whatever you call should refuse to do the same key twice, as this does.
key=$SEMEL_IDEMPOTENCY_KEY

grep -qs "^$key " handled.txt || printf '%s %s\n' "$key" "$message" >> handled.txt
echo '{"handled":true}'
