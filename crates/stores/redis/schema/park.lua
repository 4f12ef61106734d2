-- Keeps messages that are not kept yet.
-- KEYS: 7 messages, 8 their order. ARGV from 3: per message its id (16), and either 8 bytes of when it was
-- set aside or 8 zero bytes for now, and the message.
-- Answers: per message 1 if it is new.
local out, any = {}, false
local now8, zero = pack('>I8', now), pack('>I8', 0)
for i = 3, #ARGV do
    local id, since = sub(ARGV[i], 1, 16), sub(ARGV[i], 18, 25)
    if byte(ARGV[i], 17) == 0 then
        since = now8
    end
    local new = call('HSETNX', KEYS[7], id, since .. sub(ARGV[i], 26))
    if new == 1 then
        call('ZADD', KEYS[8], decimal(stamp), id)
        any = true
    end
    out[#out + 1] = new
end
if any then
    keep_stamp()
end
return out
