//! File systems that several machines share. Processes that use one file agree by memory that they share,
//! which only those of one machine can.

use std::path::Path;

/// Returns the name of the network file system that a path is on. What can't be found out is not refused.
#[cfg(target_os = "linux")]
pub(crate) fn network_of(path: &Path) -> Option<&'static str> {
    let directory = path.parent().unwrap_or(path);
    let found = rustix::fs::statfs(path).or_else(|_| rustix::fs::statfs(directory));
    // The kernel's numbers have 32 bits.
    network(found.ok()?.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn network_of(_: &Path) -> Option<&'static str> {
    None
}

/// Returns the name of a file system by its number in `statfs(2)`, if machines may share it.
#[cfg(any(target_os = "linux", test))]
fn network(number: u32) -> Option<&'static str> {
    Some(match number {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x0102_1997 => "9p",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x7461_636f => "OCFS2",
        0x0116_1970 => "GFS2",
        0x786f_4256 => "VirtualBox",
        // Also what a virtual machine shares with its host, such as virtiofs.
        0x6573_5546 => "FUSE",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_differ_from_local_ones() {
        for (number, expected) in [
            (0x6969, Some("NFS")),
            (0xff53_4d42, Some("SMB")),
            (0xfe53_4d42, Some("SMB")),
            (0x0102_1997, Some("9p")),
            (0x6573_5546, Some("FUSE")),
            // ext4, XFS, Btrfs, ZFS, tmpfs and overlayfs.
            (0xef53, None),
            (0x5846_5342, None),
            (0x9123_683e, None),
            (0x2fc1_2fc1, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
        ] {
            assert_eq!(network(number), expected, "{number:#x}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_judged_by_its_directory() {
        let file = std::env::temp_dir().join("no-such-file");
        assert_eq!(network_of(&file), network_of(&std::env::temp_dir()));
    }
}
