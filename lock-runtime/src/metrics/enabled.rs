//! Metrics with the names of OpenTelemetry's conventions. Keys are never labels, since each would be a series
//! of its own.

use crate::error::LostCause;
use crate::event::{LockEvent, Outcome};
use crate::metrics::ages::Ages;
use crate::process::ProcessId;
use crate::site::Site;
use crate::util::panics::contain;
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram, with_recorder};
use once_cell::sync::Lazy;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Managers measure the ages of their holds and waits. The scenarios under the scheduler are explored without
/// that.
pub(crate) const MEASURES_AGES: bool = cfg!(not(test));

/// The outcome of a call, as a label.
const ACQUIRED: &str = "acquired";

/// The series of one template, which the recorder looks up once.
struct Series {
    template: &'static str,
    acquired: Histogram,
    released: Histogram,
    lost: Histogram,
    active: Gauge,
    waiting: Gauge,
    oldest_hold: Gauge,
    oldest_wait: Gauge,
}

/// Those that have no template.
struct Common {
    handoffs: Counter,
    resumes: Counter,
    recalls: Counter,
    kept: Gauge,
    renewals: Counter,
    failed_renewals: Counter,
    margin: Histogram,
}

/// What was made with a recorder, and is never freed: a recorder may be installed after the first lock was
/// used.
type Known<K, S> = Lazy<RwLock<HashMap<(usize, K), &'static S>>>;

static SERIES: Known<&'static str, Series> = Lazy::new(RwLock::default);
static COMMON: Known<(), Common> = Lazy::new(RwLock::default);

/// What each manager has measured last.
static AGES: Lazy<Mutex<HashMap<ProcessId, Ages>>> = Lazy::new(Mutex::default);

/// Returns what is known by that key of the present recorder, or makes it.
fn of_recorder<K: Copy + Eq + Hash, S>(
    known: &Known<K, S>,
    key: K,
    make: impl FnOnce() -> S,
) -> &'static S {
    let recorder = with_recorder(|recorder| std::ptr::from_ref(recorder).addr());
    let found = known.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = found.get(&(recorder, key)) {
        return found;
    }
    drop(found);
    // Outside of the lock: the recorder is the user's code.
    let made = Box::leak(Box::new(make()));
    let mut all = known.write().unwrap_or_else(PoisonError::into_inner);
    all.entry((recorder, key)).or_insert(made)
}

impl Series {
    fn of(site: Option<&'static Site>) -> &'static Series {
        Series::of_template(site.map_or("", Site::template))
    }

    fn of_template(template: &'static str) -> &'static Series {
        of_recorder(&SERIES, template, || Series::new(template))
    }

    fn new(template: &'static str) -> Series {
        describe();
        // A series that begins with its first loss would hide that one from Prometheus' `increase`.
        for cause in LostCause::OF_HOLDS {
            losses(template, cause).increment(0);
        }
        let held = |outcome| histogram!("distributed_lock.hold.duration", "template" => template, "outcome" => outcome);
        Series {
            template,
            acquired: acquire_duration(template, ACQUIRED),
            released: held("released"),
            lost: held("lost"),
            active: gauge!("distributed_lock.hold.active", "template" => template),
            waiting: gauge!("distributed_lock.wait.active", "template" => template),
            oldest_hold: gauge!("distributed_lock.hold.oldest", "template" => template),
            oldest_wait: gauge!("distributed_lock.wait.oldest", "template" => template),
        }
    }
}

impl Common {
    fn get() -> &'static Common {
        of_recorder(&COMMON, (), || {
            describe();
            let renewals = |outcome| counter!("distributed_lock.renewals", "outcome" => outcome);
            Common {
                handoffs: counter!("distributed_lock.handoffs"),
                resumes: counter!("distributed_lock.resumes"),
                recalls: counter!("distributed_lock.recalls"),
                kept: gauge!("distributed_lock.kept.active"),
                renewals: renewals("renewed"),
                failed_renewals: renewals("failed"),
                margin: histogram!("distributed_lock.renewal.margin"),
            }
        })
    }
}

/// Records an event. The recorder's panics are contained.
pub(crate) fn record(event: &LockEvent<'_>) {
    contain(|| match *event {
        LockEvent::Acquired {
            site,
            waited,
            locally,
            resumed,
            ..
        } => {
            Series::of(site).acquired.record(waited);
            if locally {
                let common = Common::get();
                common.handoffs.increment(1);
                common.resumes.increment(resumed.into());
            }
        }
        LockEvent::NotAcquired {
            site,
            waited,
            outcome,
            ..
        } => not_acquired(site, waited, outcome),
        LockEvent::Released { site, held, .. } => Series::of(site).released.record(held),
        LockEvent::Lost {
            site, held, cause, ..
        } => lost(site, held, cause),
        LockEvent::Revoked { .. } => {}
        LockEvent::Recalled { .. } => Common::get().recalls.increment(1),
        LockEvent::Renewed { count, margin } => {
            let common = Common::get();
            common.renewals.increment(count as u64);
            common.margin.record(margin);
        }
        LockEvent::RenewalFailed { count, .. } => {
            Common::get().failed_renewals.increment(count as u64)
        }
        LockEvent::ServerDown { server, .. } => server_is_up(server, false),
        LockEvent::ServerUp { server } => server_is_up(server, true),
    });
}

/// Sets the ages of a manager's holds and waits, instead of those before. Of several managers, the oldest
/// count.
pub(crate) fn set_ages(manager: ProcessId, ages: Ages) {
    let mut all = AGES.lock().unwrap_or_else(PoisonError::into_inner);
    let before = match ages.is_empty() {
        true => all.remove(&manager),
        false => all.insert(manager, ages),
    };
    // Those that are gone fall to zero.
    let gone = before.into_iter().flat_map(Ages::into_keys);
    let mut oldest: Ages = gone
        .map(|template| (template, Default::default()))
        .collect();
    for (template, ages) in all.values().flatten() {
        let oldest = oldest.entry(template).or_default();
        oldest.hold = oldest.hold.max(ages.hold);
        oldest.wait = oldest.wait.max(ages.wait);
    }
    // Under the lock, so that no other manager sets what it has seen of these ages before.
    contain(|| {
        for (template, ages) in oldest {
            let series = Series::of_template(template);
            series.oldest_hold.set(ages.hold.as_secs_f64());
            series.oldest_wait.set(ages.wait.as_secs_f64());
        }
    });
}

/// A guard that holds its lock, a call that waits, or a lock that is kept: one more in a gauge, until it
/// ends. The gauge stays that of the recorder at the beginning: one that is installed later would fall below
/// 0.
pub(crate) struct Active(Option<&'static Gauge>);

impl Active {
    pub(crate) fn hold(site: Option<&'static Site>) -> Active {
        Active::begin(|| &Series::of(site).active)
    }

    pub(crate) fn wait(site: Option<&'static Site>) -> Active {
        Active::begin(|| &Series::of(site).waiting)
    }

    pub(crate) fn kept() -> Active {
        Active::begin(|| &Common::get().kept)
    }

    fn begin(gauge: impl FnOnce() -> &'static Gauge) -> Active {
        let begun = contain(|| {
            let gauge = gauge();
            gauge.increment(1.0);
            gauge
        });
        Active(begun)
    }

    pub(crate) fn end(&self) {
        if let Some(gauge) = self.0 {
            contain(|| gauge.decrement(1.0));
        }
    }
}

fn not_acquired(site: Option<&'static Site>, waited: Duration, outcome: Outcome) {
    let series = Series::of(site);
    acquire_duration(series.template, outcome.as_str()).record(waited);
}

fn lost(site: Option<&'static Site>, held: Duration, cause: LostCause) {
    let series = Series::of(site);
    series.lost.record(held);
    losses(series.template, cause).increment(1);
}

fn losses(template: &'static str, cause: LostCause) -> Counter {
    counter!("distributed_lock.losses", "template" => template, "cause" => cause.as_str())
}

fn server_is_up(server: &str, is_up: bool) {
    let up = gauge!("distributed_lock.server.up", "server" => server.to_owned());
    up.set(f64::from(u8::from(is_up)));
}

fn acquire_duration(template: &'static str, outcome: &'static str) -> Histogram {
    histogram!("distributed_lock.acquire.duration", "template" => template, "outcome" => outcome)
}

fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    let seconds = Unit::Seconds;
    describe_histogram!(
        "distributed_lock.acquire.duration",
        seconds,
        "How long calls took to acquire a lock, or to end without it."
    );
    describe_histogram!(
        "distributed_lock.hold.duration",
        seconds,
        "For how long locks were held."
    );
    describe_gauge!(
        "distributed_lock.hold.active",
        "The locks that are held now."
    );
    describe_gauge!(
        "distributed_lock.wait.active",
        "The calls that wait for their turn now."
    );
    describe_gauge!(
        "distributed_lock.hold.oldest",
        seconds,
        "For how long the oldest of the present holds has lasted."
    );
    describe_gauge!(
        "distributed_lock.wait.oldest",
        seconds,
        "For how long the oldest of the present waits has lasted."
    );
    describe_counter!(
        "distributed_lock.losses",
        "The locks that were lost before their guard ended."
    );
    describe_counter!(
        "distributed_lock.handoffs",
        "The locks that were passed on, shared or resumed within a process."
    );
    describe_counter!(
        "distributed_lock.resumes",
        "The kept locks that the next call of their process resumed."
    );
    describe_counter!(
        "distributed_lock.recalls",
        "The locks that another process recalled from one that may keep them."
    );
    describe_gauge!(
        "distributed_lock.kept.active",
        "The locks that are kept for the next call now."
    );
    describe_counter!(
        "distributed_lock.renewals",
        "The leases that were renewed, or not."
    );
    describe_histogram!(
        "distributed_lock.renewal.margin",
        Unit::Percent,
        "The part of the lease that was left at a renewal, from 0 to 1."
    );
    describe_gauge!(
        "distributed_lock.server.up",
        "Whether the connections to a server are there."
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ages::Oldest;
    use metrics::{GaugeFn, Key, KeyName, Metadata, Recorder, SharedString};
    use metrics_exporter_prometheus::PrometheusBuilder;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    #[test]
    fn a_recorder_that_comes_late_gets_no_end_without_its_beginning() {
        let begin = || [Active::hold(None), Active::wait(None), Active::kept()];
        let before = begin();
        let late = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&late, || {
            let after = begin();
            before.iter().chain(&after).for_each(Active::end);
        });
        let text = late.handle().render();
        for gauge in [
            "hold_active{template=\"\"}",
            "wait_active{template=\"\"}",
            "kept_active",
        ] {
            let line = format!("distributed_lock_{gauge} 0\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    /// A gauge that is slow the first time: it waits until the other thread is done, which may have to wait
    /// for it in turn.
    struct Slow {
        value: AtomicU64,
        is_slow: AtomicBool,
        begun: mpsc::Sender<()>,
        others: Mutex<mpsc::Receiver<()>>,
    }

    impl GaugeFn for Slow {
        fn increment(&self, _: f64) {}

        fn decrement(&self, _: f64) {}

        fn set(&self, value: f64) {
            if self.is_slow.swap(false, Ordering::Relaxed) {
                self.begun.send(()).unwrap();
                let others = self.others.lock().unwrap();
                let _ = others.recv_timeout(Duration::from_millis(100));
            }
            self.value.store(value as u64, Ordering::Relaxed);
        }
    }

    /// Records the ages of holds.
    struct OneGauge(Arc<Slow>);

    impl Recorder for OneGauge {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            match key.name() {
                "distributed_lock.hold.oldest" => Gauge::from_arc(self.0.clone()),
                _ => Gauge::noop(),
            }
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn ages_of_a_manager_outlast_what_another_saw_of_them() {
        let set = |manager, seconds| {
            let hold = Duration::from_secs(seconds);
            let oldest = Oldest { hold, wait: hold };
            set_ages(manager, Ages::from([("slow", oldest)]));
        };
        let [one, other] = [ProcessId::random(), ProcessId::random()];
        let (begun, has_begun) = mpsc::channel();
        let (done, others) = mpsc::channel();
        let gauge = Arc::new(Slow {
            value: AtomicU64::new(0),
            is_slow: AtomicBool::new(true),
            begun,
            others: Mutex::new(others),
        });
        let recorder = OneGauge(gauge.clone());
        thread::scope(|threads| {
            threads.spawn(|| metrics::with_local_recorder(&recorder, || set(one, 1)));
            has_begun.recv().unwrap();
            metrics::with_local_recorder(&recorder, || set(other, 2));
            done.send(()).unwrap();
        });
        assert_eq!(gauge.value.load(Ordering::Relaxed), 2);
        for manager in [one, other] {
            set_ages(manager, Ages::new());
        }
    }
}
