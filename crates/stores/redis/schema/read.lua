-- Hands over values as they stand.
-- KEYS from 7: records or entities. ARGV: 3 '1' if outcomes are wanted, 4 how many tokens are wanted.
-- Answers: now, stamp, then per key its value, '' for none.
local out, bytes = { now, stamp }, 0
for i = FIXED + 1, #KEYS do
    local value = call('GET', KEYS[i]) or ''
    if value ~= '' and (ARGV[3] ~= '1' or bytes > 4194304) then
        value = without_outcome(value)
    end
    bytes = bytes + #value
    out[#out + 1] = value
end
if ARGV[4] ~= '0' then
    keep_stamp(ARGV[4] - 1)
end
return out
