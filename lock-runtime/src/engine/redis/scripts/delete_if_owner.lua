-- KEYS[1] the lock   ARGV[1] the holder's token
-- 1: the token held the lock, and does no longer. 0: it did not. No waiter is notified.
return release_holder(ARGV[1], server_time()) and 1 or 0
