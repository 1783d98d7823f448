//! The clock of a file: that of the machine since its start, which counts sleep and can't be set. The file
//! keeps when this boot began, so that times of several boots differ.

use std::time::{Duration, SystemTime};

/// The present boot of this machine.
pub(crate) struct Boot {
    pub(crate) id: String,
}

impl Boot {
    /// Returns `None` where the machine does not identify its boots, or this process sees another boot clock
    /// than others, as some containers do.
    #[cfg(target_os = "linux")]
    pub(crate) fn present() -> Option<Boot> {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let id = id.trim().to_owned();
        // Kernels without time namespaces have no such file.
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        (!id.is_empty() && !is_shifted(&offsets)).then_some(Boot { id })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn present() -> Option<Boot> {
        None
    }
}

/// Returns `true` if a line such as `boottime  -3600  0` shifts a clock.
#[cfg(any(target_os = "linux", test))]
fn is_shifted(offsets: &str) -> bool {
    let shifts = offsets
        .lines()
        .flat_map(|line| line.split_whitespace().skip(1));
    shifts.into_iter().any(|shift| shift != "0")
}

/// Returns the time of day by the wall clock at which a boot clock that shows `boot_time` began.
pub(crate) fn began(boot_time: Duration) -> Duration {
    let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    day.unwrap_or_default().saturating_sub(boot_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_namespaces_are_noticed() {
        for (offsets, expected) in [
            ("", false),
            (
                "monotonic           0         0\nboottime            0         0\n",
                false,
            ),
            (
                "monotonic           0         0\nboottime        -3600         0\n",
                true,
            ),
            (
                "monotonic           0         7\nboottime            0         0\n",
                true,
            ),
        ] {
            assert_eq!(is_shifted(offsets), expected, "{offsets}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_boot_keeps_its_identity() {
        let ids = [(); 2].map(|()| Boot::present().map(|boot| boot.id));
        assert_eq!(ids[0], ids[1]);
    }
}
