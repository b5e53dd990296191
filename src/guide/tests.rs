use std::collections::BTreeSet;
use std::path::Path;

use super::plain::{PlainPage, page as shown};
use super::{TOPICS, Topic};

#[test]
fn the_list_and_the_folder_are_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".md").map(str::to_owned)
        })
        .collect();
    let listed: BTreeSet<String> = TOPICS.iter().map(|t| t.name.to_owned()).collect();
    assert_eq!(listed, files);
    assert_eq!(listed.len(), TOPICS.len());
}

/// A link to a topic is written `[name]`, with `[name]: name.md` at the end of the file.
#[test]
fn every_page_begins_with_a_title_and_every_link_leads_somewhere() {
    for topic in TOPICS {
        assert!(topic.text.starts_with("# "), "{}", topic.name);
        let mut defined = BTreeSet::new();
        for line in topic.text.lines() {
            let definition = line.strip_prefix('[').and_then(|l| l.split_once("]: "));
            if let Some((name, to)) = definition {
                assert_eq!(format!("{name}.md"), to, "{}", topic.name);
                assert!(Topic::named(name).is_some(), "{}: {to}", topic.name);
                defined.insert(name.to_owned());
            }
        }
        let used: BTreeSet<String> = PlainPage::read(topic.text, 80).links.into_iter().collect();
        assert_eq!(used, defined, "{}", topic.name);
        // Markdown shows a name in brackets as plain text if its definition is missing.
        for line in topic.plain(10_000).lines() {
            if line.starts_with("    ") {
                continue;
            }
            for text in line.split('`').step_by(2) {
                let name = text.split('[').nth(1).and_then(|t| t.split(']').next());
                let meant = name.is_some_and(|name| Topic::named(name).is_some());
                assert!(!meant, "{}: {text}", topic.name);
            }
        }
    }
}

#[test]
fn every_page_fits_a_terminal() {
    for topic in TOPICS {
        for line in topic.plain(80).lines() {
            let columns = console::measure_text_width(line);
            assert!(columns <= 80, "{}: {columns}: {line}", topic.name);
        }
    }
}

#[test]
fn plain_text() {
    let text = "# The title\n\nSome *words* and `code` in [text] and\n<https://example.org>.\n\n\
                ## Then\n\n1. one two three\n2. four:\n   - five\n\n```sh\nls\n\nls -l\n```\n\n\
                [text]: text.md\n";
    let expected = "The title\n=========\n\nSome words and `code`\nin \"text\" and\n\
                    https://example.org.\n\nThen\n----\n\n1. one two three\n2. four:\n\n   - five\n\n    \
                    ls\n\n    ls -l\n\nSee also: `spoor help\ntext`\n";
    assert_eq!(shown(text, 22), expected);
}

#[test]
fn tables_fit_or_become_paragraphs() {
    let text = "| a | number |\n|---|---:|\n| one | 1 |\n| two and more | 22 |\n";
    assert_eq!(
        shown(text, 40),
        "a             number\n------------  ------\none                1\ntwo and more      22\n"
    );
    assert_eq!(
        shown(text, 16),
        "a         number\n--------  ------\none            1\n\ntwo and       22\nmore\n"
    );
    assert_eq!(
        shown(text, 8),
        "one\n  number:\n  1\n\ntwo and\nmore\n  number:\n  22\n"
    );
}
