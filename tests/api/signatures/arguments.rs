//! What happens to the arguments: the annotated function moves and drops them as the plain one does, and
//! before the release.

use std::sync::{LazyLock, Mutex};

use lock_runtime::{Config, LockError, LockEvent, LockManager, distributed_lock};
use tokio::sync::OnceCell;

type Outcome = Result<(), LockError>;

static LOG: Mutex<Vec<&str>> = Mutex::new(Vec::new());
static LOCKS: OnceCell<LockManager> = OnceCell::const_new();
static ONE_AT_A_TIME: LazyLock<tokio::sync::Mutex<()>> = LazyLock::new(Default::default);

fn log(words: &'static str) {
    LOG.lock().unwrap().push(words);
}

fn locks() -> &'static LockManager {
    LOCKS.get().expect("`logs` has connected it")
}

async fn connect() {
    let config = Config::new("memory://").on_event(|event| {
        if let LockEvent::Released { .. } = event {
            log("released");
        }
    });
    let connected = LOCKS.get_or_try_init(|| LockManager::connect(config));
    connected.await.unwrap();
}

/// Asserts that both functions log the same, and the annotated one its release at the end.
async fn logs(plain: impl Future<Output = Outcome>, annotated: impl Future<Output = Outcome>) {
    let _one = ONE_AT_A_TIME.lock().await;
    connect().await;
    LOG.lock().unwrap().clear();
    plain.await.unwrap();
    let expected = std::mem::take(&mut *LOG.lock().unwrap());
    assert!(expected.len() > 1);
    annotated.await.unwrap();
    let found = std::mem::take(&mut *LOG.lock().unwrap());
    assert_eq!(found, [&expected[..], &["released"]].concat());
}

/// Logs its end.
struct Logged(&'static str);

impl Drop for Logged {
    fn drop(&mut self) {
        log(self.0);
    }
}

impl Logged {
    fn uses(&self) -> usize {
        log("used");
        self.0.len()
    }

    fn is_done(&self) -> Outcome {
        Ok(())
    }
}

/// Rolls back unless it was committed, as transactions do.
struct Transaction {
    committed: bool,
    number: u32,
    _end: Logged,
}

impl Transaction {
    fn begin() -> Self {
        Self {
            committed: false,
            number: 0,
            _end: Logged("transaction ended"),
        }
    }

    async fn number_is(&self) -> u32 {
        self.number
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        log(if self.committed {
            "committed"
        } else {
            "rolled back"
        });
        log(if self.number == 7 {
            "changed"
        } else {
            "unchanged"
        });
    }
}

struct Pair<A, B>(A, B);

/// Declares the function twice: as it is, and with the attribute.
macro_rules! both {
    ($(fn $test:ident($($parameter:tt)*) with ($($argument:expr),*) $body:tt)*) => {
        $(
            #[tokio::test]
            #[allow(clippy::toplevel_ref_arg)] // That of a plain function, too.
            async fn $test() {
                async fn plain($($parameter)*) -> Outcome $body

                #[distributed_lock(key = "arguments", manager = locks())]
                async fn annotated($($parameter)*) -> Outcome $body

                logs(async { plain($($argument),*).await }, async { annotated($($argument),*).await }).await;
            }
        )*
    };
}

both! {
    fn fields_of_an_argument_are_no_copies(mut of: Transaction) with (Transaction::begin()) {
        of.committed = true;
        of.number = 7;
        Ok(())
    }

    fn an_argument_of_which_fields_are_read_ends_with_the_body(of: Transaction) with (Transaction::begin()) {
        assert!(!of.committed && of.number == 0);
        Ok(())
    }

    fn arguments_end_in_reverse(first: Logged, second: Logged, third: Logged)
    with (Logged("first"), Logged("second"), Logged("third")) {
        second.uses();
        first.uses();
        third.uses();
        Ok(())
    }

    fn parts_of_patterns_end_in_reverse(Pair(first, mut second): Pair<Logged, Transaction>, third: Logged)
    with (Pair(Logged("first"), Transaction::begin()), Logged("third")) {
        second.number = 7;
        third.uses();
        first.uses();
        Ok(())
    }

    fn parts_without_a_name_end_with_their_argument(
        first: Logged, Pair(second, _): Pair<Logged, Logged>, ref third: Logged, _: Logged, [.., fifth]: [Logged; 2]
    ) with (
        Logged("first"), Pair(Logged("second"), Logged("rest")), Logged("third"), Logged("fourth"),
        [Logged("other"), Logged("fifth")]
    ) {
        fifth.uses();
        third.uses();
        second.uses();
        first.uses();
        Ok(())
    }

    fn an_argument_that_is_not_used_ends_with_the_body(_permit: Logged) with (Logged("permit")) {
        let _local = Logged("local");
        Ok(())
    }

    fn an_argument_may_be_moved_or_end_early(first: Logged, second: Logged)
    with (Logged("first"), Logged("second")) {
        drop(second);
        let kept = first;
        kept.uses();
        Ok(())
    }

    fn temporaries_of_the_value_end_as_ever(of: Logged) with (Logged("argument")) {
        let _local = Logged("local");
        of.uses();
        Logged("temporary").is_done()
    }
}

/// A receiver, which a method may change.
impl Transaction {
    async fn plain(mut self) -> Outcome {
        self.committed = true;
        self.number = 7;
        Ok(())
    }

    #[distributed_lock(key = "arguments", manager = locks())]
    async fn annotated(mut self) -> Outcome {
        self.committed = true;
        self.number = 7;
        Ok(())
    }

    async fn plain_reader(self, with: Logged) -> Outcome {
        with.uses();
        assert_eq!(self.number_is().await, 0);
        Ok(())
    }

    #[distributed_lock(key = "arguments", manager = locks())]
    async fn annotated_reader(self, with: Logged) -> Outcome {
        with.uses();
        assert_eq!(self.number_is().await, 0);
        Ok(())
    }
}

#[tokio::test]
async fn fields_of_the_receiver_are_no_copies() {
    let [one, other] = [(); 2].map(|()| Transaction::begin());
    logs(one.plain(), other.annotated()).await;
}

#[tokio::test]
async fn the_receiver_ends_last() {
    let [one, other] = [(); 2].map(|()| Transaction::begin());
    let plain = one.plain_reader(Logged("argument"));
    logs(plain, other.annotated_reader(Logged("argument"))).await;
}

/// What the error is made of outlives the body, as before.
#[tokio::test]
async fn or_else_may_use_arguments() {
    #[distributed_lock(
        key = "arguments",
        manager = locks(),
        or_else = |error| Err((order.number, error))
    )]
    async fn annotated(order: Transaction) -> Result<u32, (u32, LockError)> {
        Ok(order.number)
    }

    let _one = ONE_AT_A_TIME.lock().await;
    connect().await;
    assert_eq!(annotated(Transaction::begin()).await.unwrap(), 0);
}
