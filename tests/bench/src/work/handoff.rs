//! A lock is released in one process and granted to another: the time until the body there starts, compared
//! with a message that one publishes and the other receives.

use crate::Bench;
use crate::child::{Child, serve};
use crate::contenders::{ContenderKind, Retry};
use crate::load::{Plan, clock};
use crate::numbers::{Summary, median, micros};
use crate::report::Table;
use crate::runtime::Flavor;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub const KIND: &str = "pass";
pub const BARE: &str = "publish";

/// The time after which the other process waits, or listens, before its turn.
pub const REST: Duration = Duration::from_millis(3);

pub fn handoff(bench: &mut Bench) {
    let url = bench.server.url();
    let passes = if bench.quick { 20 } else { 100 };
    let [mut bare, mut apart] = ["own", "apart"]
        .map(|listens| ["0", "1"].map(|side| Child::start(BARE, &[&url, side, listens])));
    let mut ours = Pair::start(ContenderKind::Ours, &url);
    let (mut messages, mut heard) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(9) {
        messages.push(publish(&mut bare, passes));
        heard.push(publish(&mut apart, passes));
        ours.pass(passes, REST);
    }
    let mut rows = vec![
        ("publish → receive".to_owned(), messages),
        ("the same, heard by a thread apart".to_owned(), heard),
        ours.results(),
    ];
    for peer in [
        ContenderKind::Rslock(Retry::Tuned),
        ContenderKind::Rlock(Retry::Tuned),
        ContenderKind::AsyncRedisLock(Retry::Tuned),
        ContenderKind::Distkit(Retry::Tuned),
    ] {
        let mut pair = Pair::start(peer, &url);
        pair.pass(20, 7 * REST);
        rows.push(pair.results());
    }
    let ratio = print(&rows, "bare")[2];
    bench.report.target(
        "release in one process → body starts in another",
        format!("{ratio:.2} × bare"),
        "≤ 1.5 × a bare publish→receive",
        ratio <= 1.5,
    );
}

/// Prints the rounds of each row, and returns the ratio of each row to the first.
pub fn print(rows: &[(String, Vec<Summary>)], first: &str) -> Vec<f64> {
    let columns = ["p50 µs", "mean µs", "p99 µs", &format!("p50 / {first}")];
    let mut table = Table::new("release in one process → body in another", &columns);
    let mut ratios = Vec::new();
    for (name, rounds) in rows {
        let of =
            |part: fn(&Summary) -> Duration| median(rounds.iter().map(|round| micros(part(round))));
        let both = rounds.iter().zip(&rows[0].1);
        let ratio = median(both.map(|(a, b)| micros(a.p50) / micros(b.p50)));
        let cells = vec![
            format!("{:.0}", of(|round| round.p50)),
            format!("{:.0}", of(|round| round.mean)),
            format!("{:.0}", of(|round| round.p99)),
            format!("{ratio:.2}"),
        ];
        table.row(name, cells);
        ratios.push(ratio);
    }
    println!();
    table.print();
    ratios
}

/// Two processes that pass a lock to each other.
pub struct Pair {
    contender: ContenderKind,
    processes: [Child; 2],
    rounds: Vec<Summary>,
}

impl Pair {
    pub fn start(contender: ContenderKind, url: &str) -> Pair {
        let name = contender.to_string();
        let start = |()| Child::spawn(contender.command(None), KIND, &[url, &name]);
        Pair {
            contender,
            processes: [(); 2].map(start),
            rounds: Vec::new(),
        }
    }

    /// Runs a round. Each process reports the beginning and the end of each hold.
    pub fn pass(&mut self, passes: u64, rest: Duration) {
        let turn = Plan::line(1, rest).fresh().turn;
        let order = format!("{turn} {} {}", passes / 2, rest.as_nanos());
        let mut holds = Vec::new();
        let answers = Child::ask_all(&mut self.processes, &order);
        for (process, answer) in answers.iter().enumerate() {
            let times: Vec<u64> = numbers(answer);
            holds.extend(times.chunks(2).map(|hold| (hold[0], hold[1], process)));
        }
        holds.sort_unstable();
        let passed = holds.windows(2).filter(|two| two[0].2 != two[1].2);
        let gap =
            |two: &[(u64, u64, usize)]| Duration::from_nanos(two[1].0.saturating_sub(two[0].1));
        self.rounds.push(Summary::of(passed.map(gap).collect()));
    }

    /// Returns the name of the contender, and its rounds.
    pub fn results(self) -> (String, Vec<Summary>) {
        (self.contender.to_string(), self.rounds)
    }
}

/// Each process reports when it sent and when it received.
fn publish(pair: &mut [Child], passes: u64) -> Summary {
    let order = format!("{} {}", passes / 2, (2 * REST).as_nanos());
    let answers = Child::ask_all(pair, &order);
    let [a, b] = [0, 1].map(|side| {
        let times: Vec<u64> = numbers(&answers[side]);
        let (sent, received) = times.split_at(times.len() / 2);
        (sent.to_vec(), received.to_vec())
    });
    let ways = a.0.iter().zip(&b.1).chain(b.0.iter().zip(&a.1));
    Summary::of(
        ways.map(|(sent, got)| Duration::from_nanos(got - sent))
            .collect(),
    )
}

fn numbers(words: &str) -> Vec<u64> {
    words.split(' ').map(|word| word.parse().unwrap()).collect()
}

fn words(numbers: &[Duration]) -> String {
    let words: Vec<String> = numbers
        .iter()
        .map(|time| time.as_nanos().to_string())
        .collect();
    words.join(" ")
}

pub fn child(arguments: &[String]) {
    let [url, contender] = arguments else {
        panic!("expected a URL and a contender");
    };
    let runtime = Flavor::Threads.build();
    let contender = ContenderKind::by_name(contender).expect("a contender's name");
    let client = runtime.block_on(contender.connect(url));
    serve(|order| {
        let [turn, passes, rest] = numbers(order)[..] else {
            panic!("expected a turn, a number of passes, and a rest");
        };
        words(&runtime.block_on(client.alternate(turn, passes, Duration::from_nanos(rest))))
    });
}

pub fn bare_child(arguments: &[String]) {
    let [url, side, listens] = arguments else {
        panic!("expected a URL, a side, and a listener");
    };
    let (url, first) = (url.clone(), side == "0");
    let runtime = Flavor::Threads.build();
    // A separate listening thread has to wake another one: the receiver of the message.
    let thread = (listens == "apart").then(|| {
        let runtime = Flavor::Current.build();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    });
    let listener = thread.as_ref().unwrap_or(runtime.handle());
    let listening = listener.spawn(listen(url.clone(), channel(listens, first)));
    let messages = runtime.block_on(listening).unwrap();
    let commands = runtime.block_on(connect(&url));
    let mut inbox = Some(messages);
    serve(|order| {
        let [passes, rest] = numbers(order)[..] else {
            panic!("expected a number of passes, and a rest");
        };
        let (mut connection, theirs) = (commands.clone(), channel(listens, !first));
        let mut messages = inbox.take().unwrap();
        let task = async move {
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            for pass in 0..passes {
                if pass > 0 || !first {
                    messages.recv().await.unwrap();
                    received.push(clock());
                }
                tokio::time::sleep(Duration::from_nanos(rest)).await;
                sent.push(clock());
                let mut publish = redis::cmd("PUBLISH");
                publish.arg(&theirs).arg("x");
                publish.exec_async(&mut connection).await.unwrap();
            }
            if first {
                messages.recv().await.unwrap();
                received.push(clock());
            }
            (sent, received, messages)
        };
        let (sent, received, messages) = runtime.block_on(runtime.spawn(task)).unwrap();
        inbox = Some(messages);
        words(&[sent, received].concat())
    });
}

fn channel(listens: &str, first: bool) -> String {
    format!("bench-{listens}-{first}")
}

/// Returns a client with the same settings as the library's connections.
fn client(url: &str) -> Client {
    let info = url.into_connection_info().unwrap();
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let settings = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3);
    Client::open(info.set_redis_settings(settings)).unwrap()
}

async fn connect(url: &str) -> MultiplexedConnection {
    let connection = client(url).get_multiplexed_async_connection().await;
    connection.unwrap()
}

/// Subscribes on the current runtime.
async fn listen(url: String, channel: String) -> UnboundedReceiver<()> {
    let (sender, messages) = unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        if push.kind == PushKind::Message {
            let _ = sender.send(());
        }
        Ok::<(), redis::aio::SendError>(())
    });
    let client = client(&url);
    let listening = client.get_multiplexed_async_connection_with_config(&config);
    let mut listening = listening.await.unwrap();
    listening.subscribe(channel).await.unwrap();
    // The subscription lasts as long as the connection.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(listening);
    });
    messages
}
