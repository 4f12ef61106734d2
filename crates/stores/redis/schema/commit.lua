-- Writes on the condition that what was read still stands. Writes of one group are made together or
-- not at all.
-- KEYS: 7 audit trail, 8 its digests, 9 names of entities; from 10 records and entities.
-- ARGV: 3 how many entries of the audit trail there are; then per key two: kind ('r', 'e', or 'c' to check
-- only), group (2), expected revision (8, 0 for absent), when it is watched for (8), and the value behind its
-- revision and without the stamp that it was added under, or '' to remove it; then per entry its group (2), its number in the
-- batch (2), the stamp of the batch where it is spread over several buckets, else 0 (8), digest (16), text.
-- Answers: now, then the groups that were not written.
local own = FIXED + 3
local count = #KEYS - own
local entries = tonumber(ARGV[3])
local out, lost, heads = { now }, {}, {}
local none = pack('>I8', 0)

for i = 1, count do
    local meta = ARGV[2 + 2 * i]
    local group = unpack_('>I2', meta, 2)
    heads[i] = call('GETRANGE', KEYS[own + i], 0, 42)
    local revision = heads[i] == '' and none or sub(heads[i], 2, 9)
    if revision ~= sub(meta, 4, 11) and not lost[group] then
        lost[group] = true
        out[#out + 1] = group
    end
end

local added, live, wrote = {}, {}, false

local function count_live(name, by)
    live[name] = (live[name] or 0) + by
end

local function write_record(key, head, meta, value)
    local id = sub(key, -32)
    local was_state, was_flags = byte(head, 34, 35)
    was_flags = was_flags or 0
    local created = head == '' and stamp8 or sub(head, 36, 43)
    local segment = sub(created, 1, 5)
    if was_state and was_state <= 1 then
        count_live(segment, -1)
    end
    if value == '' then
        call('DEL', key)
        call('ZADD', KEYS[6], 'NX', decimal(now), segment)
        if bit.band(was_flags, 4) ~= 0 then
            call('ZREM', KEYS[5], id)
        end
        if bit.band(was_flags, 8) ~= 0 then
            call('ZREM', KEYS[6], id)
        end
        return
    end
    local state, flags = byte(value, 25, 26)
    local forget, watch = unpack_('>I8', value, 17), unpack_('>I8', meta, 12)
    local after = '\1' .. stamp8 .. sub(value, 1, 26) .. created .. sub(value, 27)
    if forget > 0 and ARGV[1] == '' then
        call('SET', key, after, 'PXAT', decimal(forget))
    else
        call('SET', key, after)
    end
    if forget > 0 then
        call('ZADD', KEYS[6], 'GT', decimal(forget), segment)
    end
    if head == '' then
        added[#added + 1] = id
    end
    if state <= 1 then
        count_live(segment, 1)
    end
    if bit.band(flags, 4) ~= 0 then
        call('ZADD', KEYS[5], decimal(unpack_('>I8', created)), id)
    elseif bit.band(was_flags, 4) ~= 0 then
        call('ZREM', KEYS[5], id)
    end
    if bit.band(flags, 8) ~= 0 then
        call('ZADD', KEYS[6], decimal(watch), id)
    elseif bit.band(was_flags, 8) ~= 0 then
        call('ZREM', KEYS[6], id)
    end
end

for i = 1, count do
    local key, meta, value = KEYS[own + i], ARGV[2 + 2 * i], ARGV[3 + 2 * i]
    local kind = sub(meta, 1, 1)
    if not lost[unpack_('>I2', meta, 2)] and kind ~= 'c' then
        wrote = true
        if kind == 'r' then
            write_record(key, heads[i], meta, value)
        else
            call('SET', key, '\1' .. stamp8 .. value)
            if heads[i] == '' then
                call('RPUSH', KEYS[9], sub(key, -32))
            end
        end
    end
end

local entered
for i = 1, entries do
    local entry = ARGV[3 + 2 * count + i]
    local group, number, of_batch = unpack_('>I2I2I8', entry)
    if not lost[group] then
        entered = entered or entry_stamp(KEYS[7], of_batch)
        wrote = true
        call('XADD', KEYS[7], decimal(entered) .. '-' .. number, 'e', sub(entry, 29))
        call('SADD', KEYS[8], sub(entry, 13, 28))
    end
end

if wrote then
    keep_stamp()
end
if #added > 0 then
    call('XADD', KEYS[3], decimal(stamp) .. '-0', 'i', table.concat(added))
end
for name, by in pairs(live) do
    if by ~= 0 and call('HINCRBY', KEYS[4], name, by) <= 0 then
        call('HDEL', KEYS[4], name)
    end
end
return out
