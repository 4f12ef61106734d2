-- What every script begins with. Normative description: docs/spec/redis.md.
-- KEYS: 1 counter, 2 runs, 3 journal, 4 live, 5 listed, 6 due; then each script's own.
-- ARGV: 1 a clock's milliseconds in place of the server's (tests), 2 the bucket's number (2), how many buckets there
-- are (2), the server's run; then its own.
local call, sub, byte = redis.call, string.sub, string.byte
local pack, unpack_ = struct.pack, struct.unpack
local FIXED = 6

local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = ARGV[1] == '' and math.floor(micros / 1000) or tonumber(ARGV[1])

-- The stamp of this script, above every stamp before it; given out only once `keep_stamp` was called.
local counter = call('GET', KEYS[1])
local last = counter and unpack_('>I8', counter) or 0
local stamp = micros > last and micros or last + 1
local runs = call('GET', KEYS[2]) or ''
local bucket, buckets = unpack_('>I2I2', ARGV[2])
local run = sub(ARGV[2], 5)
local is_new_run = not string.find(runs, run, 1, true)
if is_new_run and last > 0 and micros < last + 10000000 then
    -- Another process serves, and the end of its log may be lost: beyond whatever that gave out.
    stamp = last + 10000000
end
-- Buckets share none: what is left of a stamp, divided by how many there are, is the bucket's own.
stamp = stamp + (bucket - stamp) % buckets
local stamp8 = pack('>I8', stamp)

-- Counts on; with `used`, the last token is the one of this number under this stamp.
local function keep_stamp(used)
    local token = counter and sub(counter, 9) or pack('>I8I2', 0, 0)
    call('SET', KEYS[1], stamp8 .. (used and stamp8 .. pack('>I2', used) or token))
    if is_new_run then
        call('SET', KEYS[2], sub(run .. ' ' .. runs, 1, 108))
    end
end

local function decimal(number)
    return string.format('%.0f', number)
end

-- How long the part of a record is that never moves, or nothing if the record does not check out.
local function kept_length(value)
    if #value < 85 or byte(value, 1) ~= 1 then
        return nil
    end
    local length = unpack_('>I4', value, 78)
    if #value < 85 + length then
        return nil
    end
    return length
end

-- A record without the bytes of its outcome.
local function without_outcome(value)
    local length = kept_length(value)
    if not length then
        return value
    end
    return sub(value, 1, 85 + length + unpack_('>I4', value, 82 + length))
end

-- Calls `with` with at most 2000 items of a list at a time.
local function in_parts(list, with)
    for from = 1, #list, 2000 do
        with(unpack(list, from, math.min(from + 1999, #list)))
    end
end

-- The stamp of new entries of an audit trail: that of their batch, where it is spread over several buckets
-- and nobody was quicker.
local function entry_stamp(trail, of_batch)
    local latest = call('XREVRANGE', trail, '+', '-', 'COUNT', 1)[1]
    latest = latest and tonumber(string.match(latest[1], '^%d+')) or 0
    if of_batch > latest then
        return of_batch
    end
    return math.max(stamp, latest + 1)
end
