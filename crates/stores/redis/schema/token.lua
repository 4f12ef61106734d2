-- The last token, as its stamp and the number under it; raises it first where ARGV 3 (10 bytes) is higher.
-- Answers: stamp, number, 1 if it was raised.
local under, number = 0, 0
if counter then
    under, number = unpack_('>I8I2', counter, 9)
end
if ARGV[3] ~= '' then
    local floor, above = unpack_('>I8I2', ARGV[3])
    if floor > under or (floor == under and above > number) then
        call('SET', KEYS[1], pack('>I8', math.max(last, floor)) .. ARGV[3])
        return { floor, above, 1 }
    end
end
return { under, number, 0 }
