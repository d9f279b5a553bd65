-- probe: a sign of life of the server and of this library.
--
-- KEYS  none
-- ARGV  none
-- Returns 1

verb('probe', function() return 1 end)
