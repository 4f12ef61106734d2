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
    -- The state goes first: a script that fails keeps what it wrote, and a batch that is gone and not confirmed is lost.
    -- A server without memory takes it, since `touch` was a write already.
    state = sub(state, 1, 8) .. through .. sub(state, 17)
    call('HSET', KEYS[2], ARGV[6], state)
    forget(KEYS[3], through)
end
return { producer, state }
