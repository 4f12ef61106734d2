-- Adds entries of another store's audit trail that have no equal here.
-- KEYS: 7 audit trail, 8 its digests. ARGV from 3: per entry its digest (16) and text.
-- Answers: per entry 1 if it is new.
local out, any, entered = {}, false, nil
for i = 3, #ARGV do
    local new = call('SADD', KEYS[8], sub(ARGV[i], 1, 16))
    if new == 1 then
        any = true
        entered = entered or entry_stamp(KEYS[7], 0)
        call('XADD', KEYS[7], decimal(entered) .. '-' .. (i - 2), 'e', sub(ARGV[i], 17))
    end
    out[#out + 1] = new
end
if any then
    keep_stamp()
end
return out
