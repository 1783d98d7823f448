//! What a person reads in the end.

use crate::workload::{Sample, Workload};
use std::time::Duration;

/// `samples[contender][round]`
pub fn print(workload: Workload, names: &[&str], samples: &[Vec<Sample>]) {
    println!("\n{workload}");
    println!(
        "{:<14} {:>9} {:>9} {:>9}   ratio to {}",
        "", "ops/s", "p50", "p99", names[0]
    );
    for (name, rounds) in names.iter().zip(samples) {
        let rate = median(rounds.iter().map(|sample| sample.rate));
        let p50 = median(rounds.iter().map(|sample| sample.p50));
        let p99 = median(rounds.iter().map(|sample| sample.p99));
        let ratios = rounds
            .iter()
            .zip(&samples[0])
            .map(|(sample, raw)| sample.rate / raw.rate);
        let (least, ratio, most) = spread(ratios);
        let (p50, p99) = (microseconds(p50), microseconds(p99));
        println!("{name:<14} {rate:>9.0} {p50:>9} {p99:>9}   {ratio:.2}  ({least:.2}–{most:.2})");
    }
}

fn microseconds(time: Duration) -> String {
    format!("{} µs", time.as_micros())
}

fn median<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> T {
    spread(values).1
}

/// The least, the median and the most.
fn spread<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> (T, T, T) {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("no measurement is NaN"));
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}
