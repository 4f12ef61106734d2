-- Ends the wait of a sweep for records that are gone; what is still there is looked at again in an hour.
-- KEYS from 7: records. Answers: 1.
for i = FIXED + 1, #KEYS do
    local id = sub(KEYS[i], -32)
    if call('EXISTS', KEYS[i]) == 0 then
        call('ZREM', KEYS[5], id)
        call('ZREM', KEYS[6], id)
    else
        call('ZADD', KEYS[6], 'XX', 'GT', decimal(now + 3600000), id)
    end
end
return { 1 }
