-- Removes messages, and enters that where there is something to enter.
-- KEYS: 7 messages, 8 their order, 9 audit trail, 10 its digests.
-- ARGV from 3: per message its id (16), then '' or the number of its entry in the batch (2), the stamp of the
-- batch where it is spread over several buckets, else 0 (8), the digest (16) and the text of the entry.
-- Answers: per message 1 if it was there.
local out, any, entered = {}, false, nil
for i = 3, #ARGV do
    local id = sub(ARGV[i], 1, 16)
    local there = call('HDEL', KEYS[7], id)
    if there == 1 then
        any = true
        call('ZREM', KEYS[8], id)
        if #ARGV[i] > 16 then
            local number, of_batch = unpack_('>I2I8', ARGV[i], 17)
            entered = entered or entry_stamp(KEYS[9], of_batch)
            call('XADD', KEYS[9], decimal(entered) .. '-' .. number, 'e', sub(ARGV[i], 43))
            call('SADD', KEYS[10], sub(ARGV[i], 27, 42))
        end
    end
    out[#out + 1] = there
end
if any then
    keep_stamp()
end
return out
