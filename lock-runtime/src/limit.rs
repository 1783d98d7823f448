//! How many holders a lock may have.

use std::num::NonZeroU16;

/// The greatest number of holders of a lock while one of them has this limit, itself included.
///
/// An exclusive lock has the limit 1, a semaphore the number of its permits; a read lock has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Limit(NonZeroU16);

impl Limit {
    pub(crate) const EXCLUSIVE: Limit = Limit(NonZeroU16::MIN);
    /// Any number of holders.
    pub(crate) const UNLIMITED: Limit = Limit(match NonZeroU16::new(2047) {
        Some(limit) => limit,
        None => NonZeroU16::MAX,
    });
    /// The greatest number of permits.
    pub(crate) const MAX_PERMITS: u32 = 2046;

    /// Returns the limit of a semaphore, or `None` if its number of permits is out of range.
    pub(crate) fn permits(permits: u32) -> Option<Limit> {
        let limit = u16::try_from(permits).ok().and_then(NonZeroU16::new)?;
        (permits <= Limit::MAX_PERMITS).then_some(Limit(limit))
    }

    /// Returns the number as it is written behind a token, between 2 and 2047; `None` for an exclusive lock.
    pub(crate) fn number(self) -> Option<u16> {
        (self != Limit::EXCLUSIVE).then_some(self.0.get())
    }

    /// Returns the limit with that number, if it is between 2 and 2047.
    pub(crate) fn from_number(number: u16) -> Option<Limit> {
        let limit = Limit(NonZeroU16::new(number)?);
        (Limit::EXCLUSIVE < limit && limit <= Limit::UNLIMITED).then_some(limit)
    }

    pub(crate) fn is_exclusive(self) -> bool {
        self == Limit::EXCLUSIVE
    }

    /// Returns `true` if there may be one more holder with this limit beside `count` holders, none of which
    /// has a lower limit than `lowest`.
    pub(crate) fn fits(self, count: usize, lowest: Limit) -> bool {
        let limit = self.min(lowest);
        limit == Limit::UNLIMITED || count < usize::from(limit.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_between_1_and_2046() {
        for permits in [0, 2047, 65_537, u32::MAX] {
            assert_eq!(Limit::permits(permits), None);
        }
        assert_eq!(Limit::permits(1), Some(Limit::EXCLUSIVE));
        let most = Limit::permits(2046);
        assert!(most.is_some_and(|most| most < Limit::UNLIMITED));
    }

    #[test]
    fn the_lowest_limit_decides() {
        let two = Limit::permits(2).expect("it is in range");
        assert!(Limit::EXCLUSIVE.fits(0, Limit::UNLIMITED));
        assert!(!Limit::EXCLUSIVE.fits(1, Limit::UNLIMITED));
        assert!(!Limit::UNLIMITED.fits(1, Limit::EXCLUSIVE));
        assert!(Limit::UNLIMITED.fits(1, two) && !Limit::UNLIMITED.fits(2, two));
        assert!(Limit::UNLIMITED.fits(100_000, Limit::UNLIMITED));
    }
}
