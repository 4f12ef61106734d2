-- What a sweep has to look at. ARGV: 3 at most how much.
-- Answers: now, then members and scores in turn.
local out = { now }
local due = call('ZRANGE', KEYS[6], '-inf', decimal(now), 'BYSCORE', 'LIMIT', 0, ARGV[3], 'WITHSCORES')
for i = 1, #due do
    out[i + 1] = due[i]
end
return out
