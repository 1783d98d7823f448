//! The statements that are sent often, written for the default schema.

pub(crate) const ACQUIRE: &str =
    "SELECT * FROM distributed_lock.acquire_1($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const ACQUIRE_ONE: &str =
    "SELECT distributed_lock.acquire_one_1($1, $2, $3, $4, $5, $6)";
pub(crate) const WAIT: &str = "SELECT w.*, \
        (SELECT h.token FROM distributed_lock.held h WHERE h.name = $1 AND w.answer = 2 LIMIT 1) AS holder \
    FROM distributed_lock.wait_1($1, $2, $3, $4, $5, $6, $7) w";
pub(crate) const RELEASE: &str = "SELECT * FROM distributed_lock.release_1($1, $2, $3)";
pub(crate) const RELEASE_ONE: &str = "SELECT distributed_lock.release_one_1($1, $2)";
pub(crate) const RENEW: &str = "SELECT distributed_lock.renew_1($1, $2, $3, $4)";
pub(crate) const NOTIFY: &str = "SELECT distributed_lock.tell_1($1)";
/// Changes no row. A standby refuses it, and so does a server that has been set to accept only reads.
pub(crate) const PING: &str = "WITH none AS (DELETE FROM distributed_lock.held WHERE false RETURNING name) \
    SELECT count(*) FROM none";

/// The holders and the first waiters of a lock. A holder whose lease has ended is none, unless a transaction may pin it.
pub(crate) const VIEW: &str = "WITH found AS ( \
        SELECT token, fence, xmax::text <> '0' AS pinned, \
            (date_part('epoch', expires_at - clock_timestamp()) * 1000000)::bigint AS rest \
        FROM distributed_lock.held WHERE name = $1 \
    ), holding AS (SELECT * FROM found WHERE rest > 0 OR pinned) \
    SELECT ARRAY(SELECT token FROM holding ORDER BY fence) AS holders, \
        ARRAY(SELECT rest FROM holding ORDER BY fence) AS rests, \
        ARRAY(SELECT token FROM distributed_lock.waiting WHERE name = $1 ORDER BY place LIMIT $2) AS waiters, \
        (SELECT count(*) FROM distributed_lock.waiting WHERE name = $1) AS waiting";

/// Those before `PING` are prepared before the first request: to prepare one later takes a round trip, in which other requests
/// would overtake it.
pub(crate) const OFTEN: [&str; 7] = [
    ACQUIRE,
    ACQUIRE_ONE,
    WAIT,
    RELEASE,
    RELEASE_ONE,
    RENEW,
    NOTIFY,
];
