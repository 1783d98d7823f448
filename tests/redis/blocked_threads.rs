//! Runtimes and threads come and go under the global manager.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use actix_web::{App, HttpServer, web};
use lock_runtime::{LockError, distributed_lock};

use lock_test_support::server::Server;
use lock_test_support::time::millis;
use lock_test_support::worker::{Worker, arguments, report_event};

#[distributed_lock(key = "global")]
async fn global(value: u32) -> Result<u32, LockError> {
    Ok(value)
}

/// Like consecutive `#[tokio::test]`s of one process.
#[test]
fn consecutive_runtimes_share_global_manager() {
    if let Some(arguments) = arguments() {
        for n in 0..4 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let first = lock_runtime::init(arguments[0].as_str()).await;
                assert_eq!(first.is_ok(), n == 0);
                assert_eq!(global(n).await.unwrap(), n);
            });
        }
        return report_event("done");
    }
    let server = Server::start();
    let mut worker = Worker::start(consecutive_runtimes_share_global_manager, &[&server.url()]);
    worker.expect("done");
    worker.succeeds();
}

#[derive(Default)]
struct Visits {
    count: AtomicUsize,
    threads: Mutex<HashSet<ThreadId>>,
}

/// Counts without atomicity: correct only under the lock.
#[distributed_lock(key = "visits", wait = "20s")]
async fn visit(visits: web::Data<Visits>) -> Result<String, LockError> {
    let count = visits.count.load(Relaxed);
    visits
        .threads
        .lock()
        .unwrap()
        .insert(thread::current().id());
    tokio::time::sleep(millis(2)).await;
    visits.count.store(count + 1, Relaxed);
    Ok(count.to_string())
}

#[test]
fn four_actix_workers_share_global_manager() {
    const CALLERS: usize = 16;
    const CALLS: usize = 5;
    if let Some(arguments) = arguments() {
        return actix_web::rt::System::new().block_on(async {
            lock_runtime::init(arguments[0].as_str()).await.unwrap();
            let visits = web::Data::new(Visits::default());
            let data = visits.clone();
            let app = move || {
                App::new()
                    .app_data(data.clone())
                    .route("/", web::post().to(visit))
            };
            let server = HttpServer::new(app)
                .workers(4)
                .bind(("127.0.0.1", 0))
                .unwrap();
            let url = format!("http://{}/", server.addrs()[0]);
            let server = server.run();
            let handle = server.handle();
            let served = actix_web::rt::spawn(server);
            let callers = (0..CALLERS).map(|_| {
                let url = url.clone();
                thread::spawn(move || {
                    // One connection per call, so that all workers serve some.
                    for _ in 0..CALLS {
                        ureq::post(&url).send_empty().unwrap();
                    }
                })
            });
            let callers: Vec<_> = callers.collect();
            let join = || {
                callers
                    .into_iter()
                    .for_each(|caller| caller.join().unwrap())
            };
            actix_web::rt::task::spawn_blocking(join).await.unwrap();
            handle.stop(true).await;
            served.await.unwrap().unwrap();
            lock_runtime::shutdown().await;
            assert_eq!(
                visits.count.load(Relaxed),
                CALLERS * CALLS,
                "no visit is lost"
            );
            assert_eq!(
                visits.threads.lock().unwrap().len(),
                4,
                "all workers took part"
            );
            report_event("done");
        });
    }
    let server = Server::start();
    let mut worker = Worker::start(four_actix_workers_share_global_manager, &[&server.url()]);
    worker.expect("done");
    worker.succeeds();
}
