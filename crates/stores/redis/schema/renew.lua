-- Extends the leases of those that own theirs; hands over the rest.
-- KEYS from 7: records. ARGV from 3: per record '' (hand it over), or claim id (16) and lease (8).
-- Answers: now, then for each that was not extended its number and its value, '' for none.
local count = #KEYS - FIXED
local out, watched, done = { now }, {}, 0
local front = '\1' .. stamp8 .. pack('>I8', now)

for i = 1, count do
    local key, argument = KEYS[FIXED + i], ARGV[2 + i]
    local value = call('GET', key)
    local state, flags
    if value and argument ~= '' and kept_length(value) and sub(value, 62, 77) == sub(argument, 1, 16) then
        state, flags = byte(value, 34, 35)
    end
    if state and state <= 1 and bit.band(flags, 1) == 0 then
        call('SET', key, front .. sub(argument, 17) .. sub(value, 26))
        done = done + 1
        if bit.band(flags, 8) ~= 0 then
            watched[#watched + 1] = decimal(now + unpack_('>I8', argument, 17))
            watched[#watched + 1] = sub(key, -32)
        end
    else
        out[#out + 1] = i
        out[#out + 1] = value and without_outcome(value) or ''
    end
end

if done > 0 then
    keep_stamp()
    in_parts(watched, function(...) call('ZADD', KEYS[6], ...) end)
end
return out
