-- Reads the progress in an input. KEYS: 3 inputs. ARGV: 7 its digest.
-- Answers: the producer, the stream, and what is known of the input, or ''.
if not is_own then
    return { producer, state, '' }
end
touch()
return { producer, state, call('HGET', KEYS[3], ARGV[7]) or '' }
