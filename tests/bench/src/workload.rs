//! What the contenders do while the clock runs.

use crate::contenders::Contender;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub enum Workload {
    /// So many tasks, each of which takes and releases a lock that nobody else wants.
    Free { tasks: usize },
}

pub const ALL: [Workload; 3] = [
    Workload::Free { tasks: 1 },
    Workload::Free { tasks: 64 },
    Workload::Free { tasks: 1024 },
];

impl Workload {
    fn tasks(self) -> usize {
        match self {
            Workload::Free { tasks } => tasks,
        }
    }

    fn key(self, contender: &str, task: usize) -> String {
        match self {
            Workload::Free { .. } => format!("bench:{contender}:{task}"),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Free { tasks } => write!(f, "acquire + release, {tasks} at a time"),
        }
    }
}

/// What one contender did in one round.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Locks taken and released, in a second.
    pub rate: f64,
    pub p50: Duration,
    pub p99: Duration,
}

pub async fn measure<C: Contender>(
    contender: &Arc<C>,
    workload: Workload,
    time: Duration,
) -> Sample {
    // Connections are warm and scripts are loaded before the clock runs.
    run(contender, workload, time / 10).await;
    run(contender, workload, time).await
}

async fn run<C: Contender>(contender: &Arc<C>, workload: Workload, time: Duration) -> Sample {
    let start = Instant::now();
    let until = start + time;
    let tasks: Vec<_> = (0..workload.tasks())
        .map(|task| {
            let contender = contender.clone();
            let key = workload.key(C::NAME, task);
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let mut now = Instant::now();
                while now < until {
                    let hold = contender.acquire(&key).await;
                    contender.release(hold).await;
                    latencies.push(now.elapsed());
                    now = Instant::now();
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.append(&mut task.await.unwrap());
    }
    let rate = latencies.len() as f64 / start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let percentile = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    Sample {
        rate,
        p50: percentile(50),
        p99: percentile(99),
    }
}
