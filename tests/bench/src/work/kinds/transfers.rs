//! Transfers between accounts, each under the locks of its accounts: the sum of all accounts, and the waits.

use crate::Bench;
use crate::child::{Child, serve};
use crate::contenders::TTL;
use crate::numbers::{Summary, millis};
use crate::report::Table;
use crate::runtime::Flavor;
use lock_runtime::{LockError, LockManager};
use redis::aio::MultiplexedConnection;
use redis::cmd;
use std::ops::Range;
use std::time::{Duration, Instant};

pub const KIND: &str = "transfers";

const PROCESSES: usize = 4;
const CLIENTS: usize = 12;
const ACCOUNTS: u64 = 6;
const BALANCE: i64 = 1000;
/// The time between reading the balances and writing them.
const WORK: Duration = Duration::from_millis(1);
/// A call that waits so long counts as a deadlock.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn transfers(bench: &mut Bench) {
    let time = Duration::from_secs(if bench.quick { 2 } else { 20 });
    let url = bench.server.url();
    let mut connection = bench.server.connect();
    for account in 0..ACCOUNTS {
        let mut set = cmd("SET");
        set.arg(balance(account)).arg(BALANCE);
        set.exec(&mut connection).unwrap();
    }
    let start = |process: usize| Child::start(KIND, &[&url, &process.to_string()]);
    let mut processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    Child::ask_all(&mut processes, &(time / 10).as_nanos().to_string());
    let answers = Child::ask_all(&mut processes, &time.as_nanos().to_string());
    let results: Vec<Tally> = answers.iter().map(|answer| Tally::read(answer)).collect();
    drop(processes);
    let wait: Summary = results.iter().map(|result| result.wait).sum();
    let transfer: Summary = results.iter().map(|result| result.transfer).sum();
    let gave_up: u64 = results.iter().map(|result| result.gave_up).sum();
    let sum: i64 = (0..ACCOUNTS)
        .map(|account| {
            let balance: i64 = cmd("GET")
                .arg(balance(account))
                .query(&mut connection)
                .unwrap();
            balance
        })
        .sum();
    let lost = (sum - BALANCE * ACCOUNTS as i64).abs();
    let longest = millis(wait.most) / millis(transfer.mean);
    let columns = [
        "transfers/s",
        "transfer ms",
        "mean wait ms",
        "p99 ms",
        "longest ms",
    ];
    let title = format!("{CLIENTS} clients, 2 or 3 of {ACCOUNTS} accounts, {PROCESSES} processes");
    let mut table = Table::new(&title, &columns);
    let cells = vec![
        format!("{:.0}", transfer.count as f64 / time.as_secs_f64()),
        format!("{:.2}", millis(transfer.mean)),
        format!("{:.1}", millis(wait.mean)),
        format!("{:.1}", millis(wait.p99)),
        format!("{:.1}", millis(wait.most)),
    ];
    table.row("lock-runtime", cells);
    println!();
    table.print();
    bench.report.target(
        &format!("transfers, {title}: money and deadlocks"),
        format!("{lost} lost, {gave_up} waited over {PATIENCE:?}"),
        "0 and 0",
        lost == 0 && gave_up == 0,
    );
    bench.report.target(
        &format!("transfers, {title}: longest wait"),
        format!("{longest:.1} × a transfer"),
        "≤ 20 × a transfer",
        longest <= 20.0,
    );
    bench.server.clear();
}

fn balance(account: u64) -> String {
    format!("balance:{account}")
}

/// What the clients of one process measured.
#[derive(Default)]
struct Tally {
    /// The time to acquire all locks of a transfer, and the time for which they were held.
    wait: Summary,
    transfer: Summary,
    gave_up: u64,
}

impl Tally {
    fn write(&self) -> String {
        let [wait, transfer] = [self.wait, self.transfer].map(|summary| summary.write());
        format!("{wait} {transfer} {}", self.gave_up)
    }

    fn read(words: &str) -> Tally {
        let mut numbers = words.split(' ').map_while(|word| word.parse().ok());
        let mut summary = || Summary::read(&mut numbers).expect("a summary");
        Tally {
            wait: summary(),
            transfer: summary(),
            gave_up: numbers.next().expect("a number"),
        }
    }
}

pub fn child(arguments: &[String]) {
    let [url, process] = arguments else {
        panic!("expected a URL and the number of the process");
    };
    let process: u64 = process.parse().unwrap();
    let runtime = Flavor::Threads.build();
    let (locks, connection) = runtime.block_on(async {
        let client = redis::Client::open(url.as_str()).unwrap();
        let connection = client.get_multiplexed_async_connection().await;
        let locks = LockManager::connect(url.as_str()).await;
        (locks.unwrap(), connection.unwrap())
    });
    serve(|order| {
        let time = Duration::from_nanos(order.parse().expect("a time"));
        let clients = CLIENTS / PROCESSES;
        let spawn = |client: usize| {
            let random = Random(process * clients as u64 + client as u64);
            runtime.spawn(transfer_for(
                time,
                locks.clone(),
                connection.clone(),
                random,
            ))
        };
        let tasks: Vec<_> = (0..clients).map(spawn).collect();
        let (mut waits, mut times, mut gave_up) = (Vec::new(), Vec::new(), 0);
        for task in tasks {
            let of_client = runtime.block_on(task).unwrap();
            waits.extend(of_client.0);
            times.extend(of_client.1);
            gave_up += of_client.2;
        }
        let (wait, transfer) = (Summary::of(waits), Summary::of(times));
        let tally = Tally {
            wait,
            transfer,
            gave_up,
        };
        tally.write()
    });
}

/// Transfers until the time is up. Returns the waits, the times of the transfers, and how many calls gave up.
async fn transfer_for(
    time: Duration,
    locks: LockManager,
    mut connection: MultiplexedConnection,
    mut random: Random,
) -> (Vec<Duration>, Vec<Duration>, u64) {
    let (mut waits, mut times, mut gave_up) = (Vec::new(), Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < time {
        let accounts = random.accounts();
        let keys = accounts.iter().map(|account| format!("account:{account}"));
        let asked = Instant::now();
        let lock = locks.lock_all(keys).ttl(TTL).wait(PATIENCE);
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            Err(LockError::Busy { .. }) => {
                gave_up += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let got = Instant::now();
        let keys: Vec<String> = accounts.into_iter().map(balance).collect();
        let mut get = cmd("MGET");
        let mut balances: Vec<i64> = get.arg(&keys).query_async(&mut connection).await.unwrap();
        tokio::time::sleep(WORK).await;
        balances[0] -= keys.len() as i64 - 1;
        balances[1..].iter_mut().for_each(|balance| *balance += 1);
        let mut set = cmd("MSET");
        for (key, balance) in keys.iter().zip(balances) {
            set.arg(key).arg(balance);
        }
        set.exec_async(&mut connection).await.unwrap();
        guard.release().await.unwrap();
        waits.push(got - asked);
        times.push(got.elapsed());
    }
    (waits, times, gave_up)
}

/// A sequence of numbers that look random, of which each client has its own.
struct Random(u64);

impl Random {
    /// Returns two or three different accounts.
    fn accounts(&mut self) -> Vec<u64> {
        let count = self.below(2..4);
        let mut accounts: Vec<u64> = Vec::new();
        while (accounts.len() as u64) < count {
            let account = self.below(0..ACCOUNTS);
            if !accounts.contains(&account) {
                accounts.push(account);
            }
        }
        accounts
    }

    fn below(&mut self, range: Range<u64>) -> u64 {
        // The constants of Knuth's MMIX generator, whose high bits are the best ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        range.start + (self.0 >> 33) % (range.end - range.start)
    }
}
