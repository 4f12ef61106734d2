-- Ends the visit of a segment of the journal: when it is due again, unless somebody said so meanwhile.
-- ARGV: 3 segment, 4 the score that it was visited for, 5 its next or ''.
local score = call('ZSCORE', KEYS[6], ARGV[3])
if score and tonumber(score) == tonumber(ARGV[4]) then
    if ARGV[5] == '' then
        call('ZREM', KEYS[6], ARGV[3])
    else
        call('ZADD', KEYS[6], ARGV[5], ARGV[3])
    end
end
return 1
