//! Who a process is.

use crate::config::Config;
use std::env;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

pub(crate) struct Identity {
    pub(crate) service: String,
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) started: SystemTime,
}

impl Identity {
    pub(crate) fn new(config: &Config) -> Identity {
        Identity {
            service: config.service.clone().unwrap_or_else(service),
            version: config.version.clone().unwrap_or_default(),
            host: host(),
            pid: std::process::id(),
            started: SystemTime::now(),
        }
    }
}

/// Returns the name of the service, or that of the program.
fn service() -> String {
    let service = env::var("OTEL_SERVICE_NAME").ok();
    service.filter(|name| !name.is_empty()).unwrap_or_else(|| {
        let program = env::args_os().next().unwrap_or_default();
        let name = Path::new(&program).file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    })
}

/// Returns the name of the machine, or an empty text. The standard library does not know it.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_environment = || {
        ["HOSTNAME", "COMPUTERNAME"]
            .iter()
            .find_map(|name| env::var(name).ok())
    };
    let name = name.or_else(from_environment).unwrap_or_default();
    name.trim().to_owned()
}
