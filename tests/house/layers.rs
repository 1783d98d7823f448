//! Layers only point down: no file imports another one that imports it back, even indirectly, nor does a
//! folder, and no layer imports a higher one. ARCHITECTURE.md lists the layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::sources::files;

/// From the lowest to the highest. Layers of one row do not import each other.
const RUNTIME: [&[&str]; 9] = [
    &["util", "process", "silence"],
    &[
        "warning",
        "limit",
        "process_info",
        "site",
        "stats",
        "transaction_proof",
    ],
    &["error"],
    &["options", "event", "lock_info", "credentials", "own_store"],
    &["config", "trace", "metrics", "revocation"],
    &["engine"],
    &["lock"],
    &["api"],
    &["integrations", "guide", "fuzzing"],
];

/// The files that every engine on a server has, so that who knows one finds the same concept in another.
const ROOMS: [&str; 19] = [
    "mod",
    "open",
    "address",
    "keys",
    "check",
    "ping",
    "view",
    "reports",
    "asks",
    "take",
    "lock/acquire",
    "lock/wait",
    "lock/renew",
    "lock/release",
    "lock/fencing",
    "lock/downgrade",
    "wire/error",
    "conn/connect",
    "conn/batch",
];

/// Maps each module path to the modules it imports.
struct Crate {
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Crate {
    fn read(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(name).join("src");
        let mut sources = BTreeMap::new();
        for file in files(&root) {
            let path = file.strip_prefix(&root).unwrap().with_extension("");
            let mut parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
            if parts.last() == Some(&"mod") {
                parts.pop();
            }
            // Tests may import anything.
            if !parts.contains(&"tests") && !parts.contains(&"model_tests") {
                sources.insert(parts.join("::"), fs::read_to_string(&file).unwrap());
            }
        }
        let module_of = |path: &str| {
            let ends = path.match_indices("::").map(|(end, _)| end);
            let prefixes = ends.chain([path.len()]).map(|end| &path[..end]);
            prefixes
                .filter(|prefix| sources.contains_key(*prefix))
                .last()
                .map(str::to_owned)
        };
        let imports = sources.iter().map(|(module, source)| {
            let paths = paths(source);
            let imported = paths.iter().filter_map(|path| module_of(path));
            let others = imported.filter(|imported| imported != module);
            (module.clone(), others.collect())
        });
        Self {
            imports: imports.collect(),
        }
    }

    /// The rooms of a layer: its folders, and its files that lie beside them.
    fn rooms(&self, layer: &str) -> Self {
        let room = |module: &String| {
            let room = module.strip_prefix(layer)?.strip_prefix("::")?;
            room.split("::").next().map(str::to_owned)
        };
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, imports) in &self.imports {
            if let Some(own) = room(module) {
                let others = imports.iter().filter_map(room).filter(|it| *it != own);
                rooms.entry(own.clone()).or_default().extend(others);
            }
        }
        Self { imports: rooms }
    }

    /// Returns a chain of imports from a module back to itself.
    fn circle(&self) -> Option<Vec<String>> {
        let mut done = BTreeSet::new();
        let mut path = Vec::new();
        self.imports
            .keys()
            .find_map(|module| self.back(module, &mut path, &mut done))
    }

    fn back(
        &self,
        module: &str,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|before| before == module) {
            return Some(path[start..].to_vec());
        }
        if !done.insert(module.to_owned()) {
            return None;
        }
        path.push(module.to_owned());
        let found = self.imports[module]
            .iter()
            .find_map(|imported| self.back(imported, path, done));
        path.pop();
        found
    }
}

/// Returns the paths that begin with `crate::`, without that prefix; skips comments and unit tests.
fn paths(source: &str) -> Vec<String> {
    let (code, _) = source
        .split_once("#[cfg(test)]\nmod tests {")
        .unwrap_or((source, ""));
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut paths = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if !before.is_some_and(|before| before.is_alphanumeric() || "_$".contains(before)) {
            expand("", &code[at + found.len()..], &mut paths);
        }
    }
    paths
}

/// Parses one path, or several in braces. Returns the rest of the code.
fn expand<'a>(prefix: &str, code: &'a str, paths: &mut Vec<String>) -> &'a str {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let (path, mut rest) = code.split_at(end.unwrap_or(code.len()));
    let path = format!("{prefix}{path}");
    if !(path.ends_with("::") && rest.starts_with('{')) {
        paths.push(path);
        return rest;
    }
    rest = &rest[1..];
    loop {
        rest = expand(&path, rest.trim_start(), paths).trim_start();
        // Skips the new name of a renamed import.
        rest = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ' ');
        match rest.chars().next() {
            Some(',') => rest = rest[1..].trim_start(),
            _ => return rest.strip_prefix('}').unwrap_or(rest),
        }
        if let Some(rest) = rest.strip_prefix('}') {
            return rest;
        }
    }
}

#[test]
fn files_have_no_circular_imports() {
    for name in [
        "lock-admin",
        "lock-cli",
        "lock-runtime",
        "lock-macros",
        "tests/chaos",
        "tests/model",
        "tests/support",
    ] {
        let circle = Crate::read(name).circle();
        assert_eq!(circle, None, "in {name}: each imports the next");
    }
}

#[test]
fn rooms_have_no_circular_imports() {
    let runtime = Crate::read("lock-runtime");
    for layer in ["lock", "api"] {
        let circle = runtime.rooms(layer).circle();
        assert_eq!(circle, None, "in {layer}: each imports the next");
    }
}

#[test]
fn layers_import_no_higher_layer() {
    let rank = |module: &str| {
        let top = module.split("::").next().unwrap();
        RUNTIME.iter().position(|layer| layer.contains(&top))
    };
    let mut upward = Vec::new();
    for (module, imports) in &Crate::read("lock-runtime").imports {
        if module == "lib" {
            continue;
        }
        let own = rank(module);
        assert!(own.is_some(), "`{module}` has no layer");
        let own_top = module.split("::").next();
        for imported in imports {
            let higher = rank(imported) >= own && imported.split("::").next() != own_top;
            if higher {
                upward.push(format!("{module} imports {imported}"));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn engines_have_the_same_rooms() {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("lock-runtime/src/engine");
    let mut missing = Vec::new();
    for engine in ["redis", "postgres", "etcd", "zookeeper"] {
        let has = |room: &str| {
            let room = engines.join(engine).join(room);
            room.with_extension("rs").is_file() || room.join("mod.rs").is_file()
        };
        missing.extend(
            ROOMS
                .iter()
                .filter(|room| !has(room))
                .map(|room| (engine, *room)),
        );
    }
    assert_eq!(missing, []);
}

/// A reader of an engine's top file sees what the engine does, and nothing else.
#[test]
fn top_file_of_an_engine_implements_engine_alone() {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("lock-runtime/src/engine");
    for engine in ["redis", "postgres", "etcd", "zookeeper"] {
        let source = fs::read_to_string(engines.join(engine).join("mod.rs")).unwrap();
        let (code, _) = source
            .split_once("#[cfg(test)]\nmod tests {")
            .unwrap_or((&source, ""));
        let items = code.lines().filter(|line| {
            line.starts_with("impl") || line.contains("fn ") && !line.starts_with(' ')
        });
        let items: Vec<_> = items.collect();
        assert!(
            matches!(items[..], [only] if only.starts_with("impl Engine for ")),
            "{engine}: {items:?}"
        );
    }
}

#[test]
fn import_paths_are_parsed() {
    let code = "use crate::a::{b::C, d::{E, self}, F as G};\n// crate::x::Y\nfn f() { crate::g::h(); }\n\
                $crate::i::J; #[cfg(test)]\nmod tests {\nuse crate::k::L;";
    let expected = ["a::b::C", "a::d::E", "a::d::self", "a::F", "g::h"];
    assert_eq!(paths(code), expected);
}

/// Returns the text of a file of the project.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn run_script_plays_every_program_of_tests() {
    let manifest = read("Cargo.toml");
    let sections = manifest.split("[[test]]\nname = \"").skip(1);
    let ours = sections.map(|section| section.split('"').next().unwrap().to_owned());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [
        "lock-admin",
        "lock-cli",
        "lock-runtime",
        "tests/chaos",
        "tests/model",
        "tests/support",
    ];
    let folders = folders.map(|package| root.join(package).join("tests"));
    let others = folders.iter().filter(|folder| folder.is_dir());
    // A program is a file, or a folder of several.
    let others = others.flat_map(|folder| fs::read_dir(folder).unwrap());
    let others = others.map(|entry| entry.unwrap().path());
    let others = others.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let tests: BTreeSet<_> = ours.chain(others).collect();
    assert!(tests.len() > 5, "{tests:?}");
    let script = read("tests/run.sh");
    let (_, list) = script.split_once("beside=(").unwrap();
    let list = list.split(')').next().unwrap().split(' ');
    let list: Vec<_> = list.chain(["servers"]).collect();
    let missing: Vec<_> = tests.iter().filter(|it| !list.contains(&&***it)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in tests/run.sh");
}

/// What the quick tier skips, the full one plays, and each of its parts is a job.
#[test]
fn every_test_runs_in_some_job() {
    let (script, workflow) = (read("tests/run.sh"), read(".github/workflows/ci.yml"));
    assert!(workflow.contains("bash tests/run.sh\n") && workflow.contains("bash tests/lint.sh\n"));
    let (_, matrix) = workflow.split_once("engine: [").unwrap();
    let mut filters: Vec<_> = matrix.split(']').next().unwrap().split(", ").collect();
    assert!(workflow.contains("tests/run.sh full servers ${{ matrix.engine }}"));
    let others = workflow.split("tests/run.sh full ").skip(1);
    filters.extend(others.flat_map(|it| it.lines().next().unwrap().split(' ').skip(1)));
    let (_, skipped) = script.split_once("skipped() {").unwrap();
    let skipped = skipped.split('}').next().unwrap().split_whitespace();
    let skipped = skipped.skip_while(|word| *word != "'").skip(1);
    let skipped: Vec<_> = skipped.filter(|word| *word != "\\").collect();
    assert!(skipped.len() > 5, "{skipped:?}");
    for word in skipped {
        assert!(
            filters.iter().any(|it| word.contains(it)),
            "`{word}` runs in no job"
        );
    }
}

#[test]
fn list_of_tests_names_each_case_about_real_time() {
    let list = read("tests/README.md");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests", "lock-cli/tests", "lock-admin/tests"];
    let sources = folders.iter().flat_map(|folder| files(&root.join(folder)));
    let timed = sources.filter(|file| {
        let source = fs::read_to_string(file).unwrap();
        source.contains("let _timed = Timed::start()")
    });
    let names = timed.map(|file| {
        let path = file.with_extension("");
        let [folder, name] = [path.parent().unwrap(), &path].map(|it| it.file_name().unwrap());
        format!("`{}::{}`", folder.display(), name.display())
    });
    let names: Vec<_> = names.filter(|name| !name.ends_with("::layers`")).collect();
    assert!(names.len() > 5, "{names:?}");
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !list.contains(&***name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} are not in tests/README.md");
}

/// What CI runs is what the README tells everybody to run.
#[test]
fn readme_names_the_test_command() {
    assert!(read(".ci/run").contains("tests/run.sh"));
    assert!(read("README.md").contains("`tests/run.sh`"));
}
