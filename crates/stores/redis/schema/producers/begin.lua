-- Finds the journal or makes it, and tries every command that the other scripts use, so that a missing right
-- shows before anything is kept. KEYS: 1 the journal's own settings, 2 nothing at all.
-- ARGV: 3 '0' to find it, '1' to make it, '2' to try the commands alone, 4 format, 5 buckets.
-- Answers: format and buckets, '' for no journal.
local call = redis.call
local found = ARGV[3] == '2' and {} or call('HMGET', KEYS[1], 'format', 'buckets')
if ARGV[3] ~= '0' then
    local key = KEYS[2]
    -- A right that was missing broke off an earlier trial, and left what it had written.
    call('DEL', key)
    call('HSET', key, 'x', '1')
    call('HGET', key, 'x')
    call('HGETALL', key)
    call('HLEN', key)
    call('HDEL', key, 'x')
    call('XADD', key, '1-0', 'x', 'x')
    call('XLEN', key)
    call('XRANGE', key, '-', '+', 'COUNT', 1)
    call('XTRIM', key, 'MINID', '1-1')
    call('DEL', key)
end
if not found[1] then
    if ARGV[3] ~= '1' then
        return { '', '' }
    end
    call('HSET', KEYS[1], 'format', ARGV[4], 'buckets', ARGV[5])
    return { ARGV[4], ARGV[5] }
end
return { found[1], found[2] or '' }
