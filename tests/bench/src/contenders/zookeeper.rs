//! What locks in ZooKeeper are compared with.

use super::{Contender, Retry, TTL};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, LockOptions, LockPrefix};

/// The folder of all nodes.
const FOLDER: &str = "/bench";

pub async fn client(url: &str) -> Client {
    let address = url.strip_prefix("zookeeper://").unwrap();
    let connector = Client::connector().with_session_timeout(TTL);
    let client = connector.connect(address).await.unwrap();
    match client
        .create(FOLDER, b"", &of(CreateMode::Persistent))
        .await
    {
        Ok(_) | Err(Error::NodeExists) => client,
        Err(error) => panic!("{error}"),
    }
}

fn of(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

/// Creates a node as a lock's line has it, and returns its path.
pub async fn create(client: &Client) -> String {
    let mode = of(CreateMode::EphemeralSequential);
    let path = format!("{FOLDER}/n-");
    let (_, number) = client.create(&path, b"", &mode).await.unwrap();
    format!("{path}{number}")
}

/// A node that is created, and then deleted.
pub struct Creates(Client);

impl Contender for Creates {
    type Hold = String;

    async fn connect(url: &str, _: Retry) -> Creates {
        Creates(client(url).await)
    }

    async fn acquire(&self, _: &str) -> String {
        create(&self.0).await
    }

    async fn release(&self, path: String) {
        self.0.delete(&path, None).await.unwrap();
    }
}

/// The lock of the client's own.
pub struct Recipe(Client);

impl Contender for Recipe {
    type Hold = String;

    async fn connect(url: &str, _: Retry) -> Recipe {
        Recipe(client(url).await)
    }

    async fn acquire(&self, key: &str) -> String {
        let folder = format!("{FOLDER}/{key}");
        let prefix = LockPrefix::new_curator(&folder, "lock-").unwrap();
        let options = LockOptions::new(Acls::anyone_all());
        let options = options
            .with_ancestor_options(of(CreateMode::Container))
            .unwrap();
        let lock = self.0.lock(prefix, b"", options).await.unwrap();
        let path = lock.lock_path().to_owned();
        // Dropping it would begin a release that nothing awaits.
        std::mem::forget(lock);
        path
    }

    async fn release(&self, path: String) {
        self.0.delete(&path, None).await.unwrap();
    }
}
