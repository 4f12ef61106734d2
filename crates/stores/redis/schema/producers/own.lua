-- The second part of what the scripts of an incarnation begin with.
-- ARGV: 4 the producer's id, 5 epoch (8), 6 stream; then each script's own.
local state = call('HGET', KEYS[2], ARGV[6]) or ''
local is_own = producer ~= '' and state ~= '' and sub(producer, 1, 8) == ARGV[5] and sub(producer, 10) == ARGV[4]

-- Forgets the batches that are confirmed whole.
local function forget(batches, confirmed)
    call('XTRIM', batches, 'MINID', decimal(unpack_('>I8', confirmed)) .. '-1')
end
