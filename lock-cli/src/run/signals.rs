//! The signals that `locks` passes on.

use rustix::process::Signal;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind};

const PASSED_ON: [Signal; 6] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

pub(crate) struct Signals {
    received: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Listens to all but those that are ignored, such as HUP under nohup(1), or INT in the background of a
    /// script.
    pub(crate) fn listen() -> io::Result<Signals> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let mut received = Vec::new();
        for signal in PASSED_ON {
            if ignored & 1 << (signal.as_raw() - 1) == 0 {
                let kind = SignalKind::from_raw(signal.as_raw());
                received.push((signal, unix::signal(kind)?));
            }
        }
        Ok(Signals { received })
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, received) in &mut self.received {
                if received.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Returns the ignored signals of a process, signal 1 as the lowest bit, from its status in `/proc`.
fn ignored(status: &str) -> u64 {
    let mut fields = status.lines();
    let mask = fields.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("Name:\tlocks\nSigIgn:\t0000000000001006\n"), 0x1006);
        assert_eq!(ignored(""), 0);
    }
}
