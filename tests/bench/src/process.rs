//! The resources that a process uses, as the system reports them.

use std::fs;
use std::process::Command;
use std::time::Duration;

/// Returns the CPU time so far of all threads that still run.
pub fn cpu(id: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    threads
        .filter_map(|thread| {
            let statistics = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            let on_core = statistics.split(' ').next()?.parse().ok()?;
            Some(Duration::from_nanos(on_core))
        })
        .sum()
}

/// Returns the resident memory in bytes.
pub fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * PAGE
}

/// Returns the bytes of the heap that are in use, the allocator's own among them. Those that it keeps for
/// later are resident as well.
pub fn heap() -> u64 {
    use malloc_info::info::{SystemType, TotalType};

    let info = malloc_info::malloc_info().unwrap();
    let current = info
        .system
        .iter()
        .filter(|it| it.r#type == SystemType::Current);
    let total = |kind| info.total.iter().filter(move |it| it.r#type == kind);
    let mapped = total(TotalType::Mmap);
    let free = total(TotalType::Fast).chain(total(TotalType::Rest));
    let all: usize = current
        .map(|it| it.size)
        .chain(mapped.map(|it| it.size))
        .sum();
    (all - free.map(|it| it.size).sum::<usize>()) as u64
}

/// Returns a command for a program, which runs on that core if there is one.
pub fn command(program: &str, core: Option<usize>) -> Command {
    let Some(core) = core else {
        return Command::new(program);
    };
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &core.to_string(), program]);
    command
}

/// Makes a process run on that core alone.
pub fn keep_on(core: usize, id: u32) {
    let mut command = Command::new("taskset");
    command.args(["--all-tasks", "--cpu-list", "--pid", &core.to_string()]);
    let kept = command.arg(id.to_string()).output().unwrap();
    assert!(kept.status.success(), "{kept:?}");
}
