-- What every script of the journal of producers begins with. Normative description: docs/spec/producers.md.
-- KEYS: 1 producers, 2 streams of the producer; then each script's own.
-- ARGV: 1, 2 not used here, 3 the producer's name; then each script's own.
-- A producer: epoch (8), '\1' if it is frozen, else '\0', its id.
-- A stream: next, confirmed, released, last place of an input (8 each), its target. Numbers are big-endian.
local call, sub = redis.call, string.sub
local pack, unpack_ = struct.pack, struct.unpack

local function decimal(number)
    return string.format('%.0f', number)
end

-- Whether a number of 8 bytes is below another: by their halves, which are exact.
local function is_less(one, other)
    local high, low = unpack_('>I4I4', one)
    local other_high, other_low = unpack_('>I4I4', other)
    return high < other_high or high == other_high and low < other_low
end

-- Takes no memory and changes nothing, since no stream has this name, but is a write: a server that is no primary any
-- more refuses it, and one that is full takes what is written behind it.
local function touch()
    call('HDEL', KEYS[2], '')
end

local producer = call('HGET', KEYS[1], ARGV[3]) or ''
