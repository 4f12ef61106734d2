-- Finds the store or makes it, and tries every command that the other scripts use, so that a missing right
-- shows before there is work. KEYS: 7 the store's own settings, 8 nothing at all.
-- ARGV: 3 '1' to make it, '2' to make it or bring it forward, 4 format, 5 buckets.
-- Answers: format and buckets, '' for no store.
local found = call('HMGET', KEYS[7], 'format', 'buckets')
if not found[1] and ARGV[3] == '0' then
    return { '', '' }
end
local key = KEYS[8]
if ARGV[3] ~= '0' then
    -- A right that was missing broke off an earlier trial, and left what it had written.
    if call('EXISTS', key) == 1 then
        call('DEL', key)
    end
    call('SET', key, '1', 'NX', 'GET')
    call('GETRANGE', key, 0, 0)
    call('EXISTS', key)
    call('SET', key, '1', 'PXAT', decimal(micros / 1000 + 60000))
    call('DEL', key)
    call('ZADD', key, 'GT', 1, 'x')
    call('ZADD', key, 'NX', 1, 'x')
    call('ZSCORE', key, 'x')
    call('ZRANGE', key, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    call('ZREM', key, 'x')
    call('HINCRBY', key, 'x', 1)
    call('HSETNX', key, 'x', 1)
    call('HDEL', key, 'x')
    call('XADD', key, '1-1', 'x', 'x')
    call('XDEL', key, '1-1')
    call('DEL', key)
    call('SADD', key, 'x')
    call('DEL', key)
    call('RPUSH', key, 'x')
    call('LLEN', key)
    call('DEL', key)
end
if not found[1] then
    call('HSET', KEYS[7], 'format', ARGV[4], 'buckets', ARGV[5])
    return { ARGV[4], ARGV[5] }
end
if ARGV[3] == '2' and found[1] == '1' then
    call('HSET', KEYS[7], 'format', ARGV[4])
    return { ARGV[4], found[2] or '' }
end
return { found[1], found[2] or '' }
