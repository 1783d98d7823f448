//! ZooKeeper.

use super::{Servers, ask, free_ports};
use std::fs;
use std::process::Command;

/// The classes of ZooKeeper and of what it needs, as Debian installs them.
const CLASSES: &str = "/usr/share/java/zookeeper.jar";

/// Starts an ensemble of that many servers.
pub fn start(members: usize) -> Servers {
    let mut servers = Servers::new("zookeeper", "-KILL");
    let ports = free_ports(3 * members);
    let ports: Vec<_> = ports.chunks(3).collect();
    let list = ports
        .iter()
        .zip(1..)
        .map(|(ports, number)| format!("server.{number}=127.0.0.1:{}:{}\n", ports[1], ports[2]));
    let list: String = list.filter(|_| members > 1).collect();
    for (ports, number) in ports.iter().zip(1..) {
        let directory = servers.directory().join(number.to_string());
        fs::create_dir(&directory).unwrap();
        let configuration = format!(
            "tickTime=2000\ninitLimit=20\nsyncLimit=5\ndataDir={}\nclientPort={}\n\
             clientPortAddress=127.0.0.1\nadmin.enableServer=false\n{list}",
            directory.display(),
            ports[0],
        );
        let file = directory.join("zoo.cfg");
        fs::write(&file, configuration).unwrap();
        fs::write(directory.join("myid"), number.to_string()).unwrap();
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-cp", CLASSES]);
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain");
        servers.spawn(command.arg(file));
    }
    let serves = |ports: &&[u16]| ask(ports[0], "srvr").contains("Mode: ");
    servers.until(|| ports.iter().all(serves));
    servers.url = format!("zookeeper://127.0.0.1:{}", ports[0][0]);
    servers
}
