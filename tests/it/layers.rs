//! The crate map, held against the source on two levels: the table in `src/lib.rs` says which
//! modules a module may import, and the table in the `mod.rs` of a wing says the same of its
//! rooms.
//!
//! Reading the text is enough: a path into another module begins with `crate::` or `super::`.
//! Comments, literals and what is compiled for tests only are taken out first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a module may import.
#[derive(Debug, Clone, PartialEq)]
enum Permission {
    /// These modules, or rooms of them as `wing::room`.
    Only(BTreeSet<String>),
    /// Every module of the library.
    All,
}

impl Permission {
    /// Whether it allows one of these names for the same module.
    fn allows(&self, names: &[&str]) -> bool {
        match self {
            Self::All => true,
            Self::Only(list) => names.iter().any(|name| list.contains(*name)),
        }
    }
}

/// A table of modules: those of the library, or the rooms of a wing.
type Table = BTreeMap<String, Permission>;

/// The rows of the table in the documentation of a file: a module and what it may import.
/// `values` stands for all modules above the first that imports them.
fn table(text: &str) -> Table {
    let mut rows = BTreeMap::new();
    let mut values: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some(row) = line.trim().strip_prefix("//! |") else {
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches('|').split('|').collect();
        let [module, .., may] = cells.as_slice() else {
            continue;
        };
        let Some(module) = module.trim().strip_prefix('`') else {
            continue;
        };
        let module = module.trim_end_matches('`').to_owned();
        let permission = match may.trim() {
            "nothing" => Permission::Only(BTreeSet::new()),
            "everything but the commands" => Permission::All,
            list => {
                let names = list.split(',').map(str::trim);
                let names = names.flat_map(|name| match name {
                    "values" => values.clone(),
                    name => vec![name.trim_matches('`').to_owned()],
                });
                Permission::Only(names.collect())
            }
        };
        values.push(module.clone());
        let before = rows.insert(module.clone(), permission);
        assert!(before.is_none(), "`{module}` has two rows in the table");
    }
    rows
}

/// The modules that a file declares.
fn declared(text: &str) -> BTreeSet<String> {
    let code = without_tests(&without_literals(text));
    let words: Vec<&str> = code.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == "mod");
    let names = pairs.filter_map(|pair| pair[1].strip_suffix(';'));
    names.map(str::to_owned).collect()
}

/// The tables of a crate: its own, and that of each wing.
struct Map {
    modules: Table,
    wings: BTreeMap<String, Table>,
}

impl Map {
    /// Reads the tables, and adds to `wrong` where one and the modules of its file differ.
    fn read(files: &BTreeMap<PathBuf, String>, wrong: &mut Vec<String>) -> Self {
        let mut check = |path: &Path| {
            let (table, declared) = (table(&files[path]), declared(&files[path]));
            let path = path.display();
            for module in declared.iter().filter(|m| !table.contains_key(*m)) {
                wrong.push(format!("`{module}` has no row in the table of src/{path}"));
            }
            for module in table.keys().filter(|m| !declared.contains(*m)) {
                wrong.push(format!(
                    "the table of src/{path} lists `{module}`, which is no module"
                ));
            }
            table
        };
        let modules = check(Path::new("lib.rs"));
        let wings = modules.keys().filter_map(|module| {
            let path = Path::new(module).join("mod.rs");
            let is_wing = files.get(&path).is_some_and(|text| !table(text).is_empty());
            is_wing.then(|| (module.clone(), check(&path)))
        });
        let wings = wings.collect();
        let map = Self { modules, wings };
        map.check_names(wrong);
        map
    }

    /// Adds to `wrong` what tables permit that is nowhere.
    fn check_names(&self, wrong: &mut Vec<String>) {
        let rooms = self.wings.values().flatten();
        for (module, permission) in self.modules.iter().chain(rooms) {
            let Permission::Only(list) = permission else {
                continue;
            };
            for other in list {
                let known = match other.split_once("::") {
                    Some((wing, room)) => self
                        .wings
                        .get(wing)
                        .is_some_and(|rooms| rooms.contains_key(room)),
                    None => {
                        self.modules.contains_key(other)
                            || self.wings.values().any(|rooms| rooms.contains_key(other))
                    }
                };
                if !known {
                    wrong.push(format!(
                        "the table lets `{module}` import `{other}`, which is no module"
                    ));
                }
            }
        }
    }

    /// Whether a file of this module may name a path.
    fn permits(&self, module: &[String], path: &[String]) -> bool {
        let ([from, from_rest @ ..], [to, to_rest @ ..]) = (module, path) else {
            return true;
        };
        if !self.modules.contains_key(to) {
            return true;
        }
        let rooms = self.wings.get(from);
        let room = from_rest
            .first()
            .and_then(|room| Some((room, rooms?.get(room)?)));
        if from == to {
            // The room itself, a room beside it, or what the wing hands on of all its rooms.
            return match (room, to_rest.first()) {
                (Some((room, _)), Some(other)) if other == room => true,
                (Some((_, may)), Some(other)) => may.allows(&[other]),
                (None, _) | (_, None) => true,
            };
        }
        if !self.modules.get(from).is_some_and(|may| may.allows(&[to])) {
            return false;
        }
        // What is no wing has no rooms to choose from.
        let (Some((_, may)), Some(_)) = (room, self.wings.get(to)) else {
            return true;
        };
        let of_room = to_rest.first().map(|room| format!("{to}::{room}"));
        may.allows(&[to, of_room.as_deref().unwrap_or(to)])
    }
}

/// Everything wrong between the tables and the files, given as the path below `src` and the
/// text; `lib.rs` is one of them.
fn violations(files: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let map = Map::read(files, &mut wrong);
    for (path, text) in files {
        let Some(module) = module_of(path) else {
            continue;
        };
        if !map.modules.contains_key(&module[0]) {
            wrong.push(format!(
                "src/{} belongs to no module of src/lib.rs",
                path.display()
            ));
            continue;
        }
        for (line, other) in imports(text, &module, 2) {
            if !map.permits(&module, &other) {
                let shown = |parts: &[String]| {
                    if map.wings.contains_key(&parts[0]) {
                        parts[..parts.len().min(2)].join("::")
                    } else {
                        parts[0].clone()
                    }
                };
                wrong.push(format!(
                    "src/{}:{line}: `{}` must not import `{}`",
                    path.display(),
                    shown(&module),
                    shown(&other)
                ));
            }
        }
    }
    wrong
}

/// The library's module that a file is, as its path; `None` for the roots, the commands, and
/// files that hold tests.
fn module_of(path: &Path) -> Option<Vec<String>> {
    let parts = path.with_extension("");
    let mut parts: Vec<String> = parts
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let root = ["lib", "main", "commands", "it"].contains(&parts.first()?.as_str());
    if root || parts.iter().any(|part| part == "tests") {
        return None;
    }
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    Some(parts)
}

/// The paths that the code of a module names, their first `depth` names, with the line.
fn imports(text: &str, module: &[String], depth: usize) -> BTreeSet<(usize, Vec<String>)> {
    let code = without_tests(&without_literals(text));
    let mut found = BTreeSet::new();
    for prefix in ["crate::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let mut rest = &code[at..];
            let mut base = module;
            while let Some(after) = rest.strip_prefix("super::") {
                rest = after;
                base = &base[..base.len().saturating_sub(1)];
            }
            if let Some(after) = rest.strip_prefix("crate::") {
                rest = after;
                base = &[];
            }
            for path in paths(rest, depth.saturating_sub(base.len())) {
                let whole: Vec<String> = base.iter().take(depth).cloned().chain(path).collect();
                if !whole.is_empty() {
                    found.insert((line, whole));
                }
            }
        }
    }
    found
}

/// The first names, at most so many, of each path in a tree of imports.
fn paths(tree: &str, most: usize) -> Vec<Vec<String>> {
    if most == 0 {
        return vec![Vec::new()];
    }
    let tree = tree.trim_start();
    if let Some(group) = tree.strip_prefix('{') {
        return parts_of(group)
            .into_iter()
            .flat_map(|part| paths(part, most))
            .collect();
    }
    let end = tree.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (name, rest) = tree.split_at(end.unwrap_or(tree.len()));
    if name.is_empty() || name == "self" {
        return vec![Vec::new()];
    }
    let further = match rest.strip_prefix("::") {
        Some(rest) => paths(rest, most - 1),
        None => vec![Vec::new()],
    };
    let named = |path: Vec<String>| [vec![name.to_owned()], path].concat();
    further.into_iter().map(named).collect()
}

/// The parts of a group, whose opening brace is gone, at its commas.
fn parts_of(group: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// The text with comments and the inside of literals blanked; line ends stay.
fn without_literals(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let blank = |out: &mut String, part: &[char]| {
        out.extend(part.iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
    };
    while let Some(&c) = chars.get(at) {
        let rest = &chars[at..];
        let word_before = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        let length = match c {
            '/' if rest.get(1) == Some(&'/') => rest.iter().position(|c| *c == '\n'),
            '/' if rest.get(1) == Some(&'*') => Some(block_comment(rest)),
            '"' => Some(quoted(rest)),
            'r' if !word_before => raw_string(rest),
            'b' if !word_before && rest.get(1) == Some(&'r') => {
                raw_string(&rest[1..]).map(|n| n + 1)
            }
            // A character, and not a lifetime.
            '\'' if rest.get(1) == Some(&'\\') => {
                rest.iter().skip(3).position(|c| *c == '\'').map(|n| n + 4)
            }
            '\'' if rest.get(2) == Some(&'\'') => Some(3),
            _ => Some(0),
        };
        match length {
            Some(0) => {
                out.push(c);
                at += 1;
            }
            Some(n) => {
                blank(&mut out, &rest[..n.min(rest.len())]);
                at += n;
            }
            None if c == 'r' || c == 'b' => {
                out.push(c);
                at += 1;
            }
            None => {
                blank(&mut out, rest);
                break;
            }
        }
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => {
                depth += 1;
                at += 2;
            }
            ('*', '/') => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[char]) -> usize {
    let mut at = 1;
    while let Some(c) = rest.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a raw string that begins with its `r`, if one does.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().skip(1).take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let mut at = 2 + hashes;
    while at < rest.len() {
        let closes = rest[at] == '"'
            && rest
                .get(at + 1..at + 1 + hashes)
                .is_some_and(|tail| tail.iter().all(|c| *c == '#'));
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(rest.len())
}

/// The code without items under `#[cfg(test)]`; line ends stay. Comments and
/// literals are blank already.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        let (before, item) = rest.split_at(at);
        let end = item_end(&item[MARK.len()..]) + MARK.len();
        out.push_str(before);
        out.extend(item[..end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

/// Where the item ends: at a `;` outside of braces, or at the last brace.
fn item_end(item: &str) -> usize {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            // `[T; 2]` in a signature is no end.
            ';' if depth == 0 && !in_array(&item[..at]) => {
                return at + 1;
            }
            _ => {}
        }
    }
    item.len()
}

fn in_array(before: &str) -> bool {
    before.matches('[').count() > before.matches(']').count()
}

/// All Rust files of the crate in this folder, without those of the members in folders of it.
fn source(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.join("Cargo.toml").is_file() {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.insert(path.strip_prefix(root).unwrap().to_owned(), text);
            }
        }
    }
    files
}

/// The folder of the root package's source, and of each member whose `lib.rs` has a table.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = std::fs::read_dir(&root).unwrap();
    let members = entries.map(|entry| entry.unwrap().path());
    let has_table = |member: &PathBuf| {
        let text = std::fs::read_to_string(member.join("lib.rs"));
        text.is_ok_and(|text| !table(&text).is_empty())
    };
    let mut crates = vec![root.clone()];
    crates.extend(members.filter(has_table));
    crates
}

#[test]
fn the_source_keeps_to_the_crate_map() {
    let crates = crates();
    assert!(crates.len() >= 4, "{crates:?}");
    for root in crates {
        let files = source(&root);
        let modules = files
            .iter()
            .filter_map(|(path, text)| Some((module_of(path)?, text)));
        let used: usize = modules.map(|(at, text)| imports(text, &at, 2).len()).sum();
        assert!(files.len() > 10 && used > 5, "{used} imports were read");
        let wrong = violations(&files);
        let root = root.display();
        assert!(wrong.is_empty(), "{root}\n{}\n", wrong.join("\n"));
    }
}

/// The frontier, whose parts stand in the order in which they may import one another.
const FRONTIER: [&str; 2] = ["crawl", "frontier"];

/// The parts of the frontier in the order of its table.
fn parts_in_order(text: &str) -> Vec<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let cells = rows.filter_map(|row| row.split('|').next());
    let names = cells.flat_map(|cell| cell.split(','));
    names
        .map(|name| name.trim().trim_matches('`').to_owned())
        .collect()
}

/// Everything wrong between that order and the files of the frontier.
fn out_of_order(files: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let root = PathBuf::from_iter(FRONTIER).join("mod.rs");
    let order = parts_in_order(&files[&root]);
    let place = |part: &str| order.iter().position(|name| name == part);
    let declared = declared(&files[&root]);
    for part in declared.iter().filter(|part| place(part).is_none()) {
        wrong.push(format!("`{part}` is not in the table of the frontier"));
    }
    for (path, text) in files {
        let Some(module) = module_of(path).filter(|m| m.starts_with(&FRONTIER.map(str::to_owned)))
        else {
            continue;
        };
        let Some(own) = module.get(2) else { continue };
        for (line, other) in imports(text, &module, 3) {
            let [.., to] = other.as_slice() else { continue };
            let is_part = other.len() == 3 && other[..2] == FRONTIER;
            if is_part && to != own && place(to) >= place(own) {
                let path = path.display();
                wrong.push(format!(
                    "src/{path}:{line}: `{own}` must not import `{to}`, which stands after it"
                ));
            }
        }
    }
    wrong
}

#[test]
fn the_parts_of_the_frontier_import_only_those_before_them() {
    let files = source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let wrong = out_of_order(&files);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));

    // Were the order another, it would be told.
    let root = PathBuf::from_iter(FRONTIER).join("mod.rs");
    let mut other = files.clone();
    let turned = files[&root].replace("`transaction`, `clock_skew`", "`clock_skew`, `transaction`");
    other.insert(root, turned);
    let wrong = out_of_order(&other);
    assert!(
        wrong
            .iter()
            .all(|line| line.contains("`clock_skew` must not import `transaction`"))
            && !wrong.is_empty(),
        "{wrong:?}"
    );
}

const MADE_UP: &str = "\
//! | module | one line | may import |
//! |---|---|---|
//! | `a` | first | nothing |
//! | `b` | second | a |
//! | `w` | a wing | values |
//! | `c` | third | values, w |
//! | `d` | last | everything but the commands |

pub mod a;
pub mod b;
pub mod w;
pub mod c;
pub mod d;
";

const WING: &str = "\
//! | module | one line | may import |
//! |---|---|---|
//! | `low` | first | nothing |
//! | `high` | second | low |

pub mod low;
pub mod high;
";

const WING_ABOVE: &str = "\
//! | module | one line | may import |
//! |---|---|---|
//! | `one` | uses a room | w::low |
//! | `two` | uses the wing | w, one |

pub mod one;
pub mod two;
";

/// What the checker says of a made-up crate; each part adds to one of its files.
fn judged(parts: &[(&str, &str)]) -> Vec<String> {
    let mut files: BTreeMap<PathBuf, String> = [
        ("lib.rs", MADE_UP),
        ("a.rs", "pub struct A;\n"),
        ("b/mod.rs", "mod deep;\nuse crate::a::A;\n"),
        ("b/deep.rs", "use super::super::a::A;\n"),
        ("w/mod.rs", WING),
        ("w/low.rs", "use crate::a;\n"),
        ("w/high/mod.rs", "use super::low::X;\nuse crate::w::low;\n"),
        ("w/high/deep.rs", "use super::super::low;\nuse super::Y;\n"),
        ("c/mod.rs", WING_ABOVE),
        ("c/one.rs", "use crate::{a::{A, B}, w::low};\n"),
        (
            "c/two.rs",
            "use crate::w::{high::H, low};\nuse super::one;\n",
        ),
        ("d.rs", "use crate::{a, b, c};\n"),
        ("main.rs", "use crate::nothing;\n"),
    ]
    .into_iter()
    .map(|(path, text)| (PathBuf::from(path), text.to_owned()))
    .collect();
    for (path, text) in parts {
        files.entry(path.into()).or_default().push_str(text);
    }
    violations(&files)
}

#[test]
fn the_checker_finds_what_is_forbidden_and_nothing_else() {
    assert_eq!(judged(&[]), Vec::<String>::new());
    for (path, text, finding) in [
        (
            "a.rs",
            "\nuse crate::b;\n",
            "src/a.rs:3: `a` must not import `b`",
        ),
        (
            "a.rs",
            "fn f() { crate::c::g() }",
            "src/a.rs:2: `a` must not import `c::g`",
        ),
        (
            "a.rs",
            "use super::d;",
            "src/a.rs:2: `a` must not import `d`",
        ),
        (
            "b/deep.rs",
            "use super::super::c;",
            "src/b/deep.rs:2: `b` must not import `c`",
        ),
        (
            "b/mod.rs",
            "use crate::{\n  a::{A, B},\n  d::D,\n};",
            "src/b/mod.rs:3: `b` must not import `d`",
        ),
        (
            "b/mod.rs",
            "#[cfg(test)]\nmod tests { fn f() { if x { } } }\nuse crate::d;",
            "src/b/mod.rs:5: `b` must not import `d`",
        ),
        (
            "b/mod.rs",
            "const Q: char = '\"'; use crate::d; const S: &str = \"\";",
            "src/b/mod.rs:3: `b` must not import `d`",
        ),
        (
            "b/mod.rs",
            "fn f<'a>(x: &'a str) { crate::d::f(x) }",
            "src/b/mod.rs:3: `b` must not import `d`",
        ),
        (
            "w/low.rs",
            "use super::high::H;",
            "src/w/low.rs:2: `w::low` must not import `w::high`",
        ),
        (
            "w/high/deep.rs",
            "use crate::{a, d};",
            "src/w/high/deep.rs:3: `w::high` must not import `d`",
        ),
        (
            "c/one.rs",
            "use crate::w::{low, high};",
            "src/c/one.rs:2: `c::one` must not import `w::high`",
        ),
        (
            "c/one.rs",
            "use super::two;",
            "src/c/one.rs:2: `c::one` must not import `c::two`",
        ),
        (
            "c/one.rs",
            "use super::super::w::high;",
            "src/c/one.rs:2: `c::one` must not import `w::high`",
        ),
        (
            "lib.rs",
            "pub mod e;",
            "`e` has no row in the table of src/lib.rs",
        ),
        (
            "w/mod.rs",
            "pub mod e;",
            "`e` has no row in the table of src/w/mod.rs",
        ),
        (
            "lib.rs",
            "//! | `e` | x | a |",
            "the table of src/lib.rs lists `e`, which is no module",
        ),
        (
            "w/mod.rs",
            "//! | `low2` | x | nothing |",
            "the table of src/w/mod.rs lists `low2`, which is no module",
        ),
        ("f.rs", "", "src/f.rs belongs to no module of src/lib.rs"),
    ] {
        assert_eq!(judged(&[(path, text)]), [finding], "{text}");
    }
    for (path, text) in [
        (
            "a.rs",
            "// use crate::b;\n/* crate::c /* crate::b */ crate::d */",
        ),
        (
            "a.rs",
            "const S: &str = \"crate::b\"; const R: &str = r#\"\"crate::b\"#;",
        ),
        (
            "a.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::b;\n    fn f() { { crate::c::f() } }\n}\n",
        ),
        ("a.rs", "#[cfg(test)]\nuse crate::b;\n"),
        (
            "a.rs",
            "#[cfg(test)]\nfn f() -> [u8; 2] { crate::b::g() }\n",
        ),
        ("a/tests.rs", "use crate::b;"),
        ("b/deep.rs", "use super::c;"),
        ("a.rs", "macro_rules! m { () => { $crate::a::f() } }"),
        ("d.rs", "use crate::w::{high, low};"),
    ] {
        assert_eq!(judged(&[(path, text)]), Vec::<String>::new(), "{text}");
    }
}
