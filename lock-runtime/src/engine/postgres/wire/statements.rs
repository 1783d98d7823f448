//! The statements that are sent often, written for the default schema.

pub(crate) const ACQUIRE: &str =
    "SELECT * FROM distributed_lock.acquire_1($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const ACQUIRE_ONE: &str =
    "SELECT distributed_lock.acquire_one_1($1, $2, $3, $4, $5, $6)";
pub(crate) const WAIT: &str = "SELECT * FROM distributed_lock.wait_1($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const RELEASE: &str = "SELECT * FROM distributed_lock.release_1($1, $2, $3)";
pub(crate) const RELEASE_ONE: &str = "SELECT distributed_lock.release_one_1($1, $2)";
pub(crate) const RENEW: &str = "SELECT distributed_lock.renew_1($1, $2, $3, $4)";
pub(crate) const NOTIFY: &str = "SELECT distributed_lock.notify_1($1)";
/// Changes no row. A standby refuses it, and so does a server that has been set to accept only reads.
pub(crate) const PING: &str = "WITH none AS (DELETE FROM distributed_lock.held WHERE false RETURNING name) \
    SELECT count(*) FROM none";

/// The holders and the first waiters of each lock. A holder whose lease has ended is none, unless a
/// transaction may pin it.
pub(crate) const VIEWS: &str = "SELECT coalesce(h.tokens, '{}') AS holders, coalesce(h.rests, '{}') AS rests, \
        ARRAY(SELECT token FROM distributed_lock.waiting w WHERE w.name = n.name ORDER BY place LIMIT $2) AS waiters, \
        (SELECT count(*) FROM distributed_lock.waiting w WHERE w.name = n.name) AS waiting \
    FROM unnest($1::text[]) WITH ORDINALITY AS n(name, nth), LATERAL ( \
        SELECT array_agg(token ORDER BY fence) AS tokens, array_agg(rest ORDER BY fence) AS rests FROM ( \
            SELECT token, fence, xmax::text <> '0' AS pinned, \
                (date_part('epoch', expires_at - clock_timestamp()) * 1000000)::bigint AS rest \
            FROM distributed_lock.held WHERE held.name = n.name) found \
        WHERE rest > 0 OR pinned) h \
    ORDER BY n.nth";

/// The names that begin so of locks that are held or waited for. It goes from name to name, since a lock may
/// have many rows.
pub(crate) const NAMES: &str = "WITH RECURSIVE names(name) AS ( \
        SELECT least( \
            (SELECT name FROM distributed_lock.held WHERE name >= $1 ORDER BY name LIMIT 1), \
            (SELECT name FROM distributed_lock.waiting WHERE name >= $1 ORDER BY name LIMIT 1)) \
        UNION ALL SELECT least( \
            (SELECT name FROM distributed_lock.held WHERE name > n.name ORDER BY name LIMIT 1), \
            (SELECT name FROM distributed_lock.waiting WHERE name > n.name ORDER BY name LIMIT 1)) \
        FROM names n WHERE starts_with(n.name, $1) \
    ) SELECT n.name FROM names n WHERE starts_with(n.name, $1) AND ( \
        EXISTS (SELECT FROM distributed_lock.held h \
            WHERE h.name = n.name AND (h.expires_at > clock_timestamp() OR h.xmax::text <> '0')) \
        OR EXISTS (SELECT FROM distributed_lock.waiting w WHERE w.name = n.name AND w.alive_until > clock_timestamp()) \
    ) LIMIT $2";
pub(crate) const REPORT: &str = "SELECT distributed_lock.report_1($1, $2)";
/// The next reports of these processes, or of all, in their order, without those whose time can't be. It
/// reads the beginning of each.
pub(crate) const REPORTS: &str = "SELECT id, left(report, 16384) AS report, \
        (date_part('epoch', clock_timestamp() - seen_at) * 1000000)::bigint AS age \
    FROM distributed_lock.process \
    WHERE seen_at > clock_timestamp() - interval '180 s' AND seen_at < clock_timestamp() + interval '180 s' \
        AND ($1::text[] IS NULL OR id = ANY ($1)) AND id > $2 ORDER BY id LIMIT $3";
pub(crate) const TAKE: &str = "SELECT * FROM distributed_lock.take_1($1, $2, $3)";

/// Those before `PING` are prepared before the first request: to prepare one later takes a round trip, in
/// which other requests would overtake it.
pub(crate) const OFTEN: [&str; 7] = [
    ACQUIRE,
    ACQUIRE_ONE,
    WAIT,
    RELEASE,
    RELEASE_ONE,
    RENEW,
    NOTIFY,
];
