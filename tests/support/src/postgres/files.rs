//! Where PostgreSQL's programs are, the user who runs them, and the files of an empty server.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Who runs the servers: PostgreSQL and PgBouncer refuse to run as root.
pub struct ProgramUser {
    uid: u32,
    gid: u32,
}

/// `None` if the tests do not run as root: then the servers run as the same user.
static USER: LazyLock<Option<ProgramUser>> = LazyLock::new(|| {
    let is_root = std::fs::metadata("/proc/self").map_or(id("-u", None) == 0, |own| own.uid() == 0);
    is_root.then(|| ProgramUser {
        uid: id("-u", Some("postgres")),
        gid: id("-g", Some("postgres")),
    })
});

impl ProgramUser {
    /// Returns a command that runs the program as a user who may.
    pub fn command(name: &str) -> Command {
        let program = program(name)
            .unwrap_or_else(|| panic!("`{name}` is missing: install PostgreSQL and PgBouncer"));
        let mut command = Command::new(program);
        command.current_dir("/");
        if let Some(user) = &*USER {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }
}

/// Gives a file to the user who runs the servers.
pub fn own(path: &Path) {
    if let Some(user) = &*USER {
        chown(path, Some(user.uid), Some(user.gid)).unwrap();
    }
}

fn id(flag: &str, user: Option<&str>) -> u32 {
    let output = Command::new("id").arg(flag).args(user).output().unwrap();
    let number = String::from_utf8(output.stdout).unwrap();
    number.trim().parse().expect("the user `postgres` exists")
}

/// Returns the path of a program. Distributions keep those of PostgreSQL's server apart.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = Vec::new();
    for versions in ["/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt"] {
        let versions = std::fs::read_dir(versions).into_iter().flatten().flatten();
        let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
        versions.sort();
        directories.extend(versions.into_iter().rev());
    }
    directories.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    directories.extend(std::env::split_paths(&path));
    let files = directories
        .into_iter()
        .map(|directory| directory.join(name));
    files.into_iter().find(|file| file.is_file())
}

/// Copies the files of an empty server to a directory that does not exist.
pub fn copy_template(data: &Path) {
    // Made once for each version and user, since that takes longer than all the rest of a start.
    static TEMPLATE: LazyLock<PathBuf> = LazyLock::new(template);
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(&*TEMPLATE).arg(data);
    assert!(copy.status().unwrap().success(), "{copy:?}");
}

fn template() -> PathBuf {
    let version = ProgramUser::command("initdb")
        .arg("--version")
        .output()
        .unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let number = version
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let uid = id("-u", None);
    let name = format!("lock-tests-postgres-{}-{uid}", number.unwrap_or("unknown"));
    let template = std::env::temp_dir().join(name);
    if template.join("PG_VERSION").is_file() {
        return template;
    }
    let directory = tempfile::Builder::new()
        .prefix("lock-initdb-")
        .tempdir()
        .unwrap();
    own(directory.path());
    let data = directory.path().join("data");
    let small = ["--encoding=UTF8", "--locale=C", "--wal-segsize=1"];
    initdb(&data, &small);
    // Another process may have been faster.
    if std::fs::rename(&data, &template).is_err() {
        assert!(
            template.join("PG_VERSION").is_file(),
            "{} is complete",
            template.display()
        );
    }
    template
}

/// Makes the files of an empty server, with these options.
pub fn initdb(data: &Path, options: &[&str]) {
    let mut initdb = ProgramUser::command("initdb");
    initdb.arg("-D").arg(data);
    initdb.args(["-U", "postgres", "--auth=trust", "--no-sync"]);
    let made = initdb.args(options).output().unwrap();
    assert!(made.status.success(), "{initdb:?}: {made:?}");
}
