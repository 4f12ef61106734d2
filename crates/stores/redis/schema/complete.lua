-- Completes what belongs to the claim that reports and needs no decision; hands over the rest.
-- KEYS from 7: records. ARGV: 3 how long they are kept, if that is the same for all, else ''; then per record
-- two: '' (hand it over) or the claim id (16), and, behind how long it is kept (8) where that differs, what
-- follows the part of a record that never moves.
-- Answers: now, then for each that was not completed its number and its value, '' for none.
local count = #KEYS - FIXED
local out, segments, unwatched = { now }, {}, {}
local done, before, last = 0, '\1' .. stamp8 .. pack('>I8I8', now, 0), {}
local forget, front, until_

local function keep(millis)
    forget = now + millis
    until_ = decimal(forget)
    front = before .. pack('>I8', forget) .. '\3\0'
end

if ARGV[3] ~= '' then
    keep(tonumber(ARGV[3]))
end
for i = 1, count do
    local key, claim = KEYS[FIXED + i], ARGV[2 + 2 * i]
    local value = call('GET', key)
    local length, state, flags
    if value and claim ~= '' then
        length = kept_length(value)
        if length and string.find(value, claim, 62, true) == 62 then
            state, flags = byte(value, 34, 35)
        end
    end
    if state and state <= 1 and (flags == 0 or flags == 8) then
        local rest = ARGV[3 + 2 * i]
        if ARGV[3] == '' then
            keep(unpack_('>I8', rest))
            rest = sub(rest, 9)
        end
        local after = front .. sub(value, 36, 81 + length) .. rest
        if ARGV[1] == '' then
            call('SET', key, after, 'PXAT', until_)
        else
            call('SET', key, after)
        end
        done = done + 1
        if flags == 8 then
            unwatched[#unwatched + 1] = sub(key, -32)
        end
        if not last.name or string.find(value, last.name, 36, true) ~= 36 then
            local name = sub(value, 36, 40)
            last = segments[name] or { name = name, count = 0, forget = 0 }
            segments[name] = last
        end
        last.count = last.count + 1
        last.forget = math.max(last.forget, forget)
    else
        out[#out + 1] = i
        out[#out + 1] = value and without_outcome(value) or ''
    end
end

if done > 0 then
    keep_stamp()
    for name, segment in pairs(segments) do
        if call('HINCRBY', KEYS[4], name, -segment.count) <= 0 then
            call('HDEL', KEYS[4], name)
        end
        call('ZADD', KEYS[6], 'GT', decimal(segment.forget), name)
    end
    in_parts(unwatched, function(...) call('ZREM', KEYS[6], ...) end)
end
return out
