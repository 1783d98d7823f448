//! Summaries of many measurements.

use std::iter::Sum;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    pub count: u64,
    pub mean: Duration,
    pub p50: Duration,
    pub p99: Duration,
    pub most: Duration,
}

impl Summary {
    pub fn of(mut times: Vec<Duration>) -> Summary {
        if times.is_empty() {
            return Summary::default();
        }
        times.sort_unstable();
        let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
        let sum: Duration = times.iter().sum();
        Summary {
            count: times.len() as u64,
            mean: sum.div_f64(times.len() as f64),
            p50: percentile(50),
            p99: percentile(99),
            most: percentile(100),
        }
    }

    pub fn write(&self) -> String {
        let Summary {
            count,
            mean,
            p50,
            p99,
            most,
        } = self;
        let times = [mean, p50, p99, most].map(|time| time.as_nanos().to_string());
        format!("{count} {}", times.join(" "))
    }

    pub fn read(numbers: &mut impl Iterator<Item = u64>) -> Option<Summary> {
        Some(Summary {
            count: numbers.next()?,
            mean: Duration::from_nanos(numbers.next()?),
            p50: Duration::from_nanos(numbers.next()?),
            p99: Duration::from_nanos(numbers.next()?),
            most: Duration::from_nanos(numbers.next()?),
        })
    }
}

impl Sum for Summary {
    /// Summarizes several processes: the mean of their means and medians, and the maximum of the others.
    fn sum<I: Iterator<Item = Summary>>(parts: I) -> Summary {
        let parts: Vec<Summary> = parts.filter(|part| part.count > 0).collect();
        let count: u64 = parts.iter().map(|part| part.count).sum();
        let mean = |of: fn(&Summary) -> Duration| {
            let weighed = parts
                .iter()
                .map(|part| of(part).as_secs_f64() * part.count as f64);
            Duration::from_secs_f64(weighed.sum::<f64>() / count.max(1) as f64)
        };
        let most = |of: fn(&Summary) -> Duration| parts.iter().map(of).max().unwrap_or_default();
        Summary {
            count,
            mean: mean(|part| part.mean),
            p50: mean(|part| part.p50),
            p99: most(|part| part.p99),
            most: most(|part| part.most),
        }
    }
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => values[count / 2],
    }
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
