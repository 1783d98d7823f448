-- Once clients wait for it, the key of a lock outlasts the lease by GRACE milliseconds: newcomers find the lock held, and
-- the first waiter acquires it. A string says so by MARK behind the token; a sorted set and `::reserved` always do.
local GRACE, MARK = 500, '+'

