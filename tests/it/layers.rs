//! The table of the crate map in `src/lib.rs`, held against the source.
//!
//! Reading the text is enough: a path into another module begins with `crate::`,
//! or with as many `super::` as the file lies deep. Comments, literals and what
//! is compiled for tests only are taken out first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a module may import.
#[derive(Debug, Clone, PartialEq)]
enum Permission {
    /// These modules.
    Only(BTreeSet<String>),
    /// Every module of the library.
    All,
}

/// The rows of the table: a module and what it may import.
fn table(lib: &str) -> BTreeMap<String, Permission> {
    let mut rows = BTreeMap::new();
    for line in lib.lines() {
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
        let permission = match may.trim() {
            "nothing" => Permission::Only(BTreeSet::new()),
            "everything but the commands" => Permission::All,
            list => Permission::Only(list.split(',').map(|m| m.trim().to_owned()).collect()),
        };
        let module = module.trim_end_matches('`').to_owned();
        let before = rows.insert(module.clone(), permission);
        assert!(before.is_none(), "`{module}` has two rows in the table");
    }
    rows
}

/// The modules that `lib.rs` declares.
fn declared(lib: &str) -> BTreeSet<String> {
    let code = without_tests(&without_literals(lib));
    let words: Vec<&str> = code.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| pair[0] == "mod")
        .map(|pair| pair[1].trim_end_matches(';').to_owned())
        .collect()
}

/// Everything wrong between the table and the files, given as the path below
/// `src` and the text; `lib.rs` is one of them.
fn violations(files: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let lib = &files[Path::new("lib.rs")];
    let table = table(lib);
    let declared = declared(lib);
    let mut wrong = Vec::new();
    for module in declared.iter().filter(|m| !table.contains_key(*m)) {
        wrong.push(format!("`{module}` has no row in the table of src/lib.rs"));
    }
    for (module, permission) in &table {
        if !declared.contains(module) {
            wrong.push(format!("the table lists `{module}`, which is no module"));
        }
        if let Permission::Only(list) = permission {
            for other in list.iter().filter(|m| !table.contains_key(*m)) {
                wrong.push(format!(
                    "the table lets `{module}` import `{other}`, which is no module"
                ));
            }
        }
    }
    for (path, text) in files {
        let Some(module) = module_of(path) else {
            continue;
        };
        if !declared.contains(&module) {
            wrong.push(format!(
                "src/{} belongs to no module of src/lib.rs",
                path.display()
            ));
            continue;
        }
        let Some(Permission::Only(list)) = table.get(&module) else {
            continue;
        };
        for (line, other) in imports(text, depth_of(path)) {
            if other != module && declared.contains(&other) && !list.contains(&other) {
                wrong.push(format!(
                    "src/{}:{line}: `{module}` must not import `{other}`",
                    path.display()
                ));
            }
        }
    }
    wrong
}

/// The library's module that a file belongs to; `None` for the roots, the
/// commands, and files that hold tests.
fn module_of(path: &Path) -> Option<String> {
    let parts: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let first = parts.first()?;
    let root = ["lib", "main", "commands"].contains(&first.as_str());
    (!root && !parts.iter().any(|part| part == "tests")).then(|| first.clone())
}

/// How many `super::` lead from the file to the root of the crate.
fn depth_of(path: &Path) -> usize {
    let parts = path.iter().count();
    match path.file_stem().is_some_and(|stem| stem == "mod") {
        true => parts - 1,
        false => parts,
    }
}

/// The modules that the code of a file names, with the line.
fn imports(text: &str, depth: usize) -> BTreeSet<(usize, String)> {
    let code = without_tests(&without_literals(text));
    let root = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for prefix in ["crate::", &root] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            for name in first_segments(&code[at + prefix.len()..]) {
                found.insert((line, name));
            }
        }
    }
    found
}

/// The first segments of a path: one, or those of a group in braces.
fn first_segments(path: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        let text = text.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let Some(group) = path.trim_start().strip_prefix('{') else {
        return vec![word(path)];
    };
    let mut names = Vec::new();
    let mut depth = 0;
    let mut begin = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(&group[begin..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(&group[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    names
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

/// All Rust files below `src`.
fn source() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.insert(path.strip_prefix(&root).unwrap().to_owned(), text);
            }
        }
    }
    files
}

#[test]
fn the_source_keeps_to_the_crate_map() {
    let files = source();
    let used: usize = files
        .iter()
        .filter(|(path, _)| module_of(path).is_some())
        .map(|(path, text)| imports(text, depth_of(path)).len())
        .sum();
    assert!(files.len() > 50 && used > 100, "{used} imports were read");
    let wrong = violations(&files);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

const MADE_UP: &str = "\
//! | module | one line | may import |
//! |---|---|---|
//! | `a` | first | nothing |
//! | `b` | second | a |
//! | `c` | third | a, b |
//! | `d` | last | everything but the commands |

pub mod a;
pub mod b;
pub mod c;
pub mod d;
";

/// What the checker says of a made-up crate; each part adds to one of its files.
fn judged(parts: &[(&str, &str)]) -> Vec<String> {
    let mut files: BTreeMap<PathBuf, String> = [
        ("lib.rs", MADE_UP),
        ("a.rs", "pub struct A;\n"),
        ("b/mod.rs", "mod deep;\nuse crate::a::A;\n"),
        ("b/deep.rs", "use super::super::a::A;\n"),
        ("c.rs", "use crate::{a::{A, B}, b};\n"),
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
            "src/a.rs:2: `a` must not import `c`",
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
            "use crate::{\n  a::{A, B},\n  c::C,\n};",
            "src/b/mod.rs:3: `b` must not import `c`",
        ),
        (
            "b/mod.rs",
            "#[cfg(test)]\nmod tests { fn f() { if x { } } }\nuse crate::d;",
            "src/b/mod.rs:5: `b` must not import `d`",
        ),
        (
            "b/mod.rs",
            "const Q: char = '\"'; use crate::c; const S: &str = \"\";",
            "src/b/mod.rs:3: `b` must not import `c`",
        ),
        (
            "b/mod.rs",
            "fn f<'a>(x: &'a str) { crate::c::f(x) }",
            "src/b/mod.rs:3: `b` must not import `c`",
        ),
        (
            "lib.rs",
            "pub mod e;",
            "`e` has no row in the table of src/lib.rs",
        ),
        (
            "lib.rs",
            "//! | `e` | x | a |",
            "the table lists `e`, which is no module",
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
    ] {
        assert_eq!(judged(&[(path, text)]), Vec::<String>::new(), "{text}");
    }
}
