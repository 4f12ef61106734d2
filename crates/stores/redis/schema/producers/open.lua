-- Opens a producer for a stream: a new epoch, and the stream if it is new.
-- ARGV: 4 the id of a producer that is new, 5 stream, 6 target.
-- Answers: 1, or 0 where messages wait for another place and nothing was written; the producer, the stream.
local state = call('HGET', KEYS[2], ARGV[5]) or ''
local next_, confirmed, released, place = 1, 0, 0, 0
if state ~= '' then
    next_, confirmed, released, place = unpack_('>I8I8I8I8', state)
    if sub(state, 33) ~= ARGV[6] and next_ - 1 > confirmed then
        return { 0, producer, state }
    end
end
if state ~= '' and producer ~= '' then
    touch()
end
local epoch, frozen, id = 0, '\0', ARGV[4]
if producer ~= '' then
    epoch, frozen, id = unpack_('>I8', producer), sub(producer, 9, 9), sub(producer, 10)
end
producer = pack('>I8', epoch + 1) .. frozen .. id
state = pack('>I8I8I8I8', next_, confirmed, released, place) .. ARGV[6]
call('HSET', KEYS[1], ARGV[3], producer)
call('HSET', KEYS[2], ARGV[5], state)
return { 1, producer, state }
