-- Records that messages are with the broker, and forgets them. KEYS: 3 batches. ARGV: 7 up to where (8).
-- Answers: the producer and the stream as they are then.
if not is_own then
    return { producer, state }
end
touch()
local through = ARGV[7]
local last = pack('>I8', unpack_('>I8', state) - 1)
if is_less(last, through) then
    through = last
end
if is_less(sub(state, 9, 16), through) then
    -- First what frees memory: a server without any left refuses the first write of a script, if that takes some.
    forget(KEYS[3], through)
    state = sub(state, 1, 8) .. through .. sub(state, 17)
    call('HSET', KEYS[2], ARGV[6], state)
end
return { producer, state }
