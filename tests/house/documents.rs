//! GitHub shows the Markdown files, and rustdoc the same text: examples have no lines that only rustdoc
//! hides, and links lead somewhere in both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The definitions with which rustdoc reads the guides and the manual. It checks their targets.
const LINKS: &str = include_str!("../../lock-runtime/src/guide/links.txt");

/// A line outside of examples, or in one.
struct Line<'a> {
    number: usize,
    text: &'a str,
    is_rust: bool,
    is_code: bool,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut fence: Option<&str> = None;
    let mut all = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        if let Some(language) = text.strip_prefix("```") {
            fence = fence.is_none().then_some(language);
            continue;
        }
        all.push(Line {
            number,
            text,
            is_rust: fence.is_some_and(|language| language.is_empty() || language.contains("rust")),
            is_code: fence.is_some(),
        });
    }
    all
}

/// Returns the Markdown files, without those of dependencies and builds.
fn documents() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                collect(&path, found);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    found.sort();
    assert!(found.iter().any(|path| path.ends_with("attribute.md")));
    found
}

/// Returns a text without what is between backticks, where brackets are no links.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the targets of `[text](target)` in a line.
pub fn inline_targets(text: &str) -> Vec<String> {
    let text = without_code(text);
    let after = text.split("](").skip(1);
    after
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// Returns the links that are defined at the end of a text, `[label]: target`.
pub fn definitions(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter(|line| line.starts_with('['));
    lines
        .filter_map(|line| line[1..].split_once("]: "))
        .collect()
}

/// Returns the anchors that GitHub gives to the headings of a text.
pub fn anchors(text: &str) -> Vec<String> {
    let headings = lines(text).into_iter().filter(|line| !line.is_code);
    headings
        .filter_map(|line| line.text.strip_prefix('#'))
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Returns the problem with the target of a link in `document`.
fn problem(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    if target.contains("::") {
        return Some("only rustdoc knows this target".into());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => document.to_owned(),
        path => document.parent().unwrap().join(path),
    };
    let Ok(text) = fs::read_to_string(&file) else {
        return (!file.exists()).then(|| "there is no such file".into());
    };
    let is_known = anchor.is_empty() || anchors(&text).iter().any(|it| it == anchor);
    (!is_known).then(|| "the file has no such heading".into())
}

#[test]
fn examples_have_no_hidden_lines() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for line in lines(&text) {
            let hidden = line.text == "#" || line.text.trim_start().starts_with("# ");
            assert!(
                !(line.is_rust && hidden),
                "{}:{}: {}",
                document.display(),
                line.number,
                line.text
            );
        }
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let prose = lines(&text).into_iter().filter(|line| !line.is_code);
        let inline = prose.flat_map(|line| inline_targets(line.text));
        let defined = definitions(&text).into_values().map(str::to_owned);
        for target in inline.chain(defined) {
            let problem = problem(&document, &target);
            assert_eq!(problem, None, "{}: `{target}`", document.display());
        }
    }
}

/// Of two definitions of a link Markdown takes the first: on GitHub that at the end of the file, and in
/// rustdoc that of `links.txt`.
#[test]
fn links_to_items_are_defined_for_both_readers() {
    let for_rustdoc = definitions(LINKS);
    let mut used = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let is_in_rustdoc = document.to_string_lossy().contains("lock-runtime/src");
        for label in definitions(&text).into_keys().filter(|_| is_in_rustdoc) {
            let name = document.display();
            assert!(for_rustdoc.contains_key(label), "{name}: [{label}]");
            used += 1;
        }
        let prose = lines(&text).into_iter().filter(|line| !line.is_code);
        let prose: Vec<_> = prose.map(|line| line.text).collect();
        let prose = prose.join("\n");
        for label in for_rustdoc.keys().filter(|_| is_in_rustdoc) {
            let link = format!("[{label}]");
            let at = prose.match_indices(&link);
            let is_link = |(at, _): (usize, &str)| !prose[at + link.len()..].starts_with('(');
            if at.into_iter().any(is_link) {
                let defined = definitions(&text).contains_key(label);
                assert!(defined, "{}: {link} has no target", document.display());
            }
        }
    }
    assert!(used > 0);
}
