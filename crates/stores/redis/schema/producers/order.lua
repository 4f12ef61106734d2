-- Carries out an order. ARGV: 4 'freeze', 'thaw' or 'release'. Answers: 1 if there is such a producer.
if producer == '' then
    return { 0 }
end
local order = ARGV[4]
local all = call('HGETALL', KEYS[2])
touch()
if order ~= 'release' then
    local frozen = order == 'freeze' and '\1' or '\0'
    call('HSET', KEYS[1], ARGV[3], sub(producer, 1, 8) .. frozen .. sub(producer, 10))
end
if order ~= 'thaw' then
    for i = 1, #all, 2 do
        local state = all[i + 1]
        local released = sub(state, 9, 16)
        if order == 'release' then
            released = pack('>I8', unpack_('>I8', state) - 1)
        end
        call('HSET', KEYS[2], all[i], sub(state, 1, 16) .. released .. sub(state, 25))
    end
end
return { 1 }
