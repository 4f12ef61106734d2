-- Reads a page of batches. KEYS: 3 batches.
-- ARGV: 7 the sequence to begin with, in decimal digits, 8 the most messages, 9 the most bytes.
-- Answers: the producer, the stream, and of each batch: the last sequence, count and time, the messages.
local out = { producer, state }
if not is_own then
    return out
end
touch()
local from, messages, bytes = ARGV[7], 0, 0
while true do
    local entry = call('XRANGE', KEYS[3], from, '+', 'COUNT', 1)[1]
    if not entry then
        return out
    end
    local meta, body = entry[2][2], entry[2][4]
    messages, bytes = messages + unpack_('>I4', meta), bytes + #body
    if #out > 2 and (messages > tonumber(ARGV[8]) or bytes > tonumber(ARGV[9])) then
        return out
    end
    out[#out + 1], out[#out + 2], out[#out + 3] = entry[1], meta, body
    from = '(' .. entry[1]
end
