//! What may happen to all servers of a topology, and what that costs a holder.

use lock_test_support::servers::Servers;

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The servers keep their connections and reply to nothing.
    Freeze,
    /// The servers end, and do not return.
    Crash,
    /// The servers end, and return with what is on their disks.
    Restart,
}

#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    Kept,
    Lost,
}

use Fault::{Crash, Freeze, Restart};
use Outcome::{Kept, Lost};

/// Of servers that have nothing on a disk.
pub const FORGETFUL: &[(Fault, Outcome)] = &[(Freeze, Lost), (Crash, Lost), (Restart, Lost)];

/// Of servers that flush what they grant.
pub const LASTING: &[(Fault, Outcome)] = &[(Freeze, Lost), (Crash, Lost), (Restart, Kept)];

impl Fault {
    pub fn strike(self, servers: &mut dyn Servers) {
        let all = 0..servers.ports().len();
        match self {
            Freeze => all.for_each(|number| servers.pause(number)),
            Crash => all.for_each(|number| servers.kill(number)),
            Restart => {
                Crash.strike(servers);
                Crash.heal(servers);
            }
        }
    }

    pub fn heal(self, servers: &mut dyn Servers) {
        let all = 0..servers.ports().len();
        match self {
            Freeze => all.for_each(|number| servers.resume(number)),
            Crash => all.for_each(|number| servers.restart(number)),
            Restart => {}
        }
    }
}
