-- Appends a batch, if it is the next one of the latest incarnation. KEYS: 3 batches, 4 inputs.
-- ARGV: 7 first (8), 8 the sequence behind the last (8), 9 what is confirmed, below that (8), 10 the last sequence, in
-- decimal digits, or '' for a batch without messages to keep, 11 count and time (4, 8), 12 the messages, 13 the
-- digest of the input or '', 14 rows and bytes read (8, 8) and '\1' if that is all of it, else '\0', 15 how many inputs
-- are remembered.
-- Answers: the producer and the stream as they were, 1 if anything was written.
if not is_own or sub(state, 1, 8) ~= ARGV[7] then
    if is_own then
        -- That it is known, and by the latest incarnation, is for a server to say that takes writes.
        touch()
    end
    return { producer, state, 0 }
end
local confirmed = sub(state, 9, 16)
local moves = is_less(confirmed, ARGV[9])
if moves then
    confirmed = ARGV[9]
end
local place = sub(state, 25, 32)
if ARGV[13] ~= '' then
    place = pack('>I8', unpack_('>I8', place) + 1)
end
-- A script that fails keeps what it wrote: keys of another kind, a missing right and a full server show before
-- anything is changed, and the batch is there before the state that has given out its sequences.
call('XLEN', KEYS[3])
call('HLEN', KEYS[4])
call('HSET', KEYS[2], ARGV[6], state)
if ARGV[10] ~= '' then
    call('XADD', KEYS[3], ARGV[10] .. '-0', 'm', ARGV[11], 'b', ARGV[12])
end
call('HSET', KEYS[2], ARGV[6], ARGV[8] .. confirmed .. sub(state, 17, 24) .. place .. sub(state, 33))
if ARGV[13] ~= '' then
    call('HSET', KEYS[4], ARGV[13], place .. ARGV[14])
end
if moves then
    forget(KEYS[3], confirmed)
end
if ARGV[13] ~= '' then
    if call('HLEN', KEYS[4]) > tonumber(ARGV[15]) then
        -- The one that was used longest ago has the lowest place.
        local all = call('HGETALL', KEYS[4])
        local oldest, lowest
        for i = 1, #all, 2 do
            if not lowest or is_less(all[i + 1], lowest) then
                oldest, lowest = all[i], sub(all[i + 1], 1, 8)
            end
        end
        call('HDEL', KEYS[4], oldest)
    end
end
return { producer, state, 1 }
