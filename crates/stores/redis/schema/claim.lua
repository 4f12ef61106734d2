-- Adds what is absent and young enough, and hands over the rest.
-- KEYS from 7: records. ARGV: 3 '1' if outcomes are wanted, 4 until when the oldest is young or '', 5 the same
-- for each in 8 bytes, 6 ids, 7 lease (8), 8 zero bytes, state and flags, if they are the same for all, else '';
-- then per record, behind these 18 bytes where they differ, what follows the times of a record.
-- Answers: now, stamp or 0 where none was taken, then for each that was not added its number and its value:
-- '' too old, 0 no string.
local count = #KEYS - FIXED
local now8 = pack('>I8', now)
local front, middle = '\1' .. stamp8 .. now8, stamp8 .. stamp8 .. now8
local common = ARGV[7]
local head = front .. common .. middle
local are_young = ARGV[4] == '' or now <= tonumber(ARGV[4])
local is_wanted = ARGV[3] == '1'
local out, out_bytes = { now, 0 }, 0
local added, present, watched = 0, {}, {}
local needs_stamp = false

-- Whether a claim of this record may be granted now, which takes a token.
local function is_claimable(value)
    if not kept_length(value) then
        return false
    end
    if byte(value, 34) <= 2 then
        return unpack_('>I8', value, 10) + unpack_('>i8', value, 18) <= now
    end
    local forget = unpack_('>I8', value, 26)
    return forget > 0 and forget <= now
end

-- What is to be set, as SET and MSETNX take it.
local pairs_ = {}
for i = 1, count do
    local value = ARGV[7 + i]
    pairs_[2 * i - 1] = KEYS[FIXED + i]
    if common == '' then
        pairs_[2 * i] = front .. sub(value, 1, 18) .. middle .. sub(value, 19)
    else
        pairs_[2 * i] = head .. value
    end
end

-- Mostly all are absent: then one command adds them, which saves a fifth.
local are_added = are_young and redis.pcall('MSETNX', unpack(pairs_))
if type(are_added) == 'table' then
    return are_added
end

for i = 1, count do
    local key = pairs_[2 * i - 1]
    local found
    if are_added == 1 then
        found = nil
    elseif are_young or now <= unpack_('>I8', ARGV[5], i * 8 - 7) then
        found = redis.pcall('SET', key, pairs_[2 * i], 'NX', 'GET')
    else
        found = redis.pcall('GET', key) or ''
    end
    if not found then
        added = added + 1
        local own = common == '' and ARGV[7 + i] or common
        if byte(own, 18) >= 8 then
            watched[#watched + 1] = decimal(now + unpack_('>I8', own))
            watched[#watched + 1] = sub(key, -32)
        end
    else
        if type(found) == 'table' then
            if added == 0 then
                return found
            end
            found = 0
        elseif found ~= '' then
            needs_stamp = needs_stamp or is_claimable(found)
            if not is_wanted or out_bytes > 4194304 then
                found = without_outcome(found)
            end
            out_bytes = out_bytes + #found
        end
        present[i] = true
        out[#out + 1] = i
        out[#out + 1] = found
    end
end

if added > 0 or needs_stamp then
    keep_stamp(count - 1)
    out[2] = stamp
end
if added > 0 then
    local ids = ARGV[6]
    if added < count then
        local some = {}
        for i = 1, count do
            if not present[i] then
                some[#some + 1] = sub(ids, i * 32 - 31, i * 32)
            end
        end
        ids = table.concat(some)
    end
    call('XADD', KEYS[3], decimal(stamp) .. '-0', 'i', ids)
    call('HINCRBY', KEYS[4], sub(stamp8, 1, 5), added)
    in_parts(watched, function(...) call('ZADD', KEYS[6], ...) end)
end
return out
