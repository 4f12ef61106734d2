-- Says what became of the operations of some entries of the journal. A sweep lets go of what is gone.
-- KEYS from 7: records, those of one entry beside each other. ARGV: 3 '1' for a sweep, 4 the stamp of each
-- record's entry (8).
-- Answers: now, and per record that is there its place (2), state (1), flags (1), when it is forgotten (8).
local is_sweep = ARGV[3] == '1'
local present, gone, dropped = {}, {}, {}
local entry, has_any = nil, false

local function end_entry()
    if entry and not has_any then
        dropped[#dropped + 1] = decimal(unpack_('>I8', entry)) .. '-0'
    end
end

for i = 1, #KEYS - FIXED do
    local key, of = KEYS[FIXED + i], sub(ARGV[4], i * 8 - 7, i * 8)
    if of ~= entry then
        end_entry()
        entry, has_any = of, false
    end
    local head = call('GETRANGE', key, 0, 42)
    if head == '' then
        gone[#gone + 1] = sub(key, -32)
    elseif sub(head, 36, 43) == of then
        has_any = true
        local state, flags = byte(head, 34, 35)
        local forget = unpack_('>I8', head, 26)
        present[#present + 1] = pack('>I2BBI8', i - 1, state, flags, forget)
    end
end
end_entry()

if is_sweep then
    in_parts(gone, function(...)
        call('ZREM', KEYS[5], ...)
        call('ZREM', KEYS[6], ...)
    end)
    in_parts(dropped, function(...) call('XDEL', KEYS[3], ...) end)
end
return { now, table.concat(present) }
