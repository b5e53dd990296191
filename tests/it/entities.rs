//! `spoor entities` as a process: lists in two formats, documents of a corpus and of a job, three
//! outputs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Ran, spoor};

const LIST: &str = "\
name\tclasses\tpopularity\taliases\tgender
United States\tcountry;state\t300\tUSA;America
Ada Lovelace\thuman;mathematician\t150\tLady Lovelace\tfemale
";

const ITEM: &str = r#"{"type":"item","id":"Q84","labels":{"en":{"language":"en","value":"London"},"de":{"language":"de","value":"London"}},"aliases":{"en":[{"language":"en","value":"London, UK"}]},"claims":{"P31":[{"mainsnak":{"datavalue":{"value":{"id":"Q515"}}},"rank":"normal"}]},"sitelinks":{"enwiki":{},"dewiki":{}}},"#;

pub fn on(arguments: &[&str]) -> Ran {
    Ran::of(&mut spoor(arguments))
}

/// A folder with two lists and three documents.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let documents = [
        json!({"id": "1", "url": "http://a.test/1", "title": "A raise in America", "text":
            "The tax raise was decided in the USA. Nobody liked it.\n\nIn London the rain fell."}),
        json!({"id": "2", "url": "http://a.test/2", "text": "Lady Lovelace wrote notes on the \
            engine in the year before. She lived in London and liked her numbers more than tea."}),
        json!({"url": "http://a.test/3", "text": "Nothing \u{202e}is here. Not the usa."}),
    ];
    let mut lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    lines.push("{broken".to_owned());
    let packed = zstd::encode_all(lines.join("\n").as_bytes(), 1).unwrap();
    std::fs::write(folder.path().join("documents.jsonl.zst"), packed).unwrap();
    std::fs::write(folder.path().join("list.tsv"), LIST).unwrap();
    std::fs::write(
        folder.path().join("items.json"),
        format!("[\n{ITEM}\nnot an item\tx\ty\n]\n"),
    )
    .unwrap();
    folder
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn lists_are_compiled_and_found_in_documents() {
    let home = folder();
    let [list, items, index, documents] = [
        "list.tsv",
        "items.json",
        "all.entities",
        "documents.jsonl.zst",
    ]
    .map(|name| path(home.path(), name));
    let built = on(&[
        "entities",
        "build",
        &list,
        &items,
        "--language",
        "en",
        "--output",
        &index,
    ]);
    assert!(
        built
            .err
            .contains("items.json, line 3: `y` in the third column"),
        "{built:?}"
    );
    let built = built.good();
    assert!(
        built.starts_with("3 entities with 7 aliases, 1 KiB in "),
        "{built}"
    );
    assert_eq!(
        on(&["entities", "show", &index]).good(),
        "3 entities with 7 aliases\n"
    );
    let shown = on(&["entities", "show", &index, "London, UK", "usa"]).good();
    assert_eq!(
        shown,
        "London, UK: London (Q84), Q515, popularity 2\nusa: no entity\n"
    );
    let none = on(&["entities", "show", &index, "usa"]).refused();
    assert!(none.contains("case counts"), "{none}");

    let plain = path(home.path(), "found.jsonl");
    let found = on(&["entities", "find", &index, &documents, "--output", &plain]);
    assert!(
        found.err.contains("documents.jsonl.zst, line 4: "),
        "{found:?}"
    );
    assert_eq!(found.good(), "7 places in 2 of 3 documents\n");
    let text = std::fs::read_to_string(&plain).unwrap();
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let short: Vec<Value> = rows
        .iter()
        .map(|r| {
            json!([
                r["document"],
                r["in"],
                r["from"],
                r["to"],
                r["surface"],
                r["id"],
                r["sentence"],
                r["paragraph"]
            ])
        })
        .collect();
    assert_eq!(
        Value::from(short),
        json!([
            ["1", "title", 11, 18, "America", "United States", 0, 0],
            ["1", "text", 33, 36, "USA", "United States", 0, 0],
            ["1", "text", 59, 65, "London", "Q84", 2, 1],
            ["2", "text", 0, 13, "Lady Lovelace", "Ada Lovelace", 0, 0],
            ["2", "text", 60, 63, "She", "Ada Lovelace", 1, 0],
            ["2", "text", 73, 79, "London", "Q84", 1, 0],
            ["2", "text", 90, 93, "her", "Ada Lovelace", 1, 0],
        ])
    );
    assert_eq!(rows[4]["pronoun"], true);
    assert_eq!(rows[1]["classes"], json!(["country", "state"]));
    // Each line matches the schema.
    let schema = on(&["schema", "annotation"]).good();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for row in &rows {
        assert!(validator.is_valid(row), "{row}");
    }

    // Standard output and compressed files have the same contents.
    let shown = on(&["entities", "find", &index, &documents, "--quiet"]);
    assert_eq!(shown.out, text);
    let packed = path(home.path(), "found.jsonl.zst");
    on(&["entities", "find", &index, &documents, "-o", &packed]).good();
    let unpacked = zstd::decode_all(std::fs::read(&packed).unwrap().as_slice()).unwrap();
    assert_eq!(String::from_utf8(unpacked).unwrap(), text);
    // A folder of documents, a list instead of an index, and without pronouns.
    let inner = home.path().join("other/documents");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::copy(&documents, inner.join("0.jsonl.zst")).unwrap();
    let inner = path(home.path(), "other");
    let found = on(&[
        "entities",
        "find",
        &list,
        &inner,
        "--no-pronouns",
        "-o",
        &plain,
        "--json",
    ]);
    let found: Value = serde_json::from_str(&found.good()).unwrap();
    assert_eq!(found["mentions"], 3);
}

#[test]
fn unusable_input_is_reported() {
    let home = folder();
    let [list, documents, index] =
        ["list.tsv", "documents.jsonl.zst", "x.entities"].map(|name| path(home.path(), name));
    let message = on(&[
        "entities",
        "find",
        &list,
        &documents,
        "--output",
        "found.csv",
    ])
    .refused();
    assert!(
        message.contains("found.csv: has no known ending"),
        "{message}"
    );
    let message = on(&["entities", "find", "missing.entities", &documents]).refused();
    assert!(message.contains("missing.entities"), "{message}");
    std::fs::write(&index, "spoor entities 0\n").unwrap();
    let message = on(&["entities", "show", &index]).refused();
    assert!(message.contains("another version"), "{message}");
    std::fs::write(&index, "spoor entities 1\n12345678").unwrap();
    let message = on(&["entities", "show", &index]).refused();
    assert!(message.contains("is damaged"), "{message}");
}

#[test]
fn a_table_has_a_row_for_each_place() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let home = folder();
    let [list, documents, table] =
        ["list.tsv", "documents.jsonl.zst", "found.parquet"].map(|name| path(home.path(), name));
    let made = on(&[
        "entities", "find", &list, &documents, "--output", &table, "--json",
    ])
    .good();
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(
        (&made["mentions"], &made["documents"], &made["bad"]),
        (&json!(5), &json!(3), &json!(1))
    );
    let file = std::fs::File::open(PathBuf::from(&table)).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 5);
    let left: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn a_corpus_has_grammar_and_entities() {
    let home = folder();
    let plan = home.path().join("plan.toml");
    let steps = "\
[[step]]
kind = \"grammar\"
columns = [\"stems\", \"tags\"]
remove = [\"symbols\"]
[[step]]
kind = \"entities\"
list = \"list.tsv\"
least = 1
";
    let write = |steps: &str| {
        let text = format!(
            "[source]\njsonl = [\"documents.jsonl.zst\"]\n{steps}[output]\nfolder = \"out\"\n\
             formats = [\"vertical\"]\ncompression = \"none\"\n"
        );
        std::fs::write(&plan, text).unwrap();
    };
    write(steps);
    let file = plan.to_str().unwrap();
    on(&["corpus", "build", file]).good();
    let documents = || {
        let text = std::fs::read_to_string(home.path().join("out/documents/00000.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    let all = documents();
    assert_eq!(all.len(), 2, "{all:?}");
    let first = &all[0];
    let tokens = ["The", "tax", "raise", "was", "decided"];
    assert_eq!(
        Value::from(&first["tokens"].as_array().unwrap()[..5]),
        json!(tokens)
    );
    assert_eq!(first["stems"][4], "decid");
    assert_eq!(first["tags"][1], "NOUN");
    assert_eq!(first["token_offsets"][3], 7);
    assert_eq!(first["entity_names"], json!(["United States"]));
    let mentions: Value = serde_json::from_str(first["entities"].as_str().unwrap()).unwrap();
    assert_eq!(mentions[1]["from"], 33);
    let vertical = || std::fs::read_to_string(home.path().join("out/vertical/00000.vert")).unwrap();
    let rows = vertical();
    assert!(
        rows.contains("tax\ttax\tNOUN\nraise\trais\tNOUN\n"),
        "{rows}"
    );
    assert!(rows.contains("<g/>\n.\t.\t-\n"), "{rows}");

    // The index takes the entities from the documents; the page and the terminal find them.
    let out = home.path().join("out");
    let out = out.to_str().unwrap();
    on(&["index", out]).good();
    let found = on(&["search", out, "tax raise", "--with", "united states"]).good();
    assert!(
        found.starts_with("1 of 2 documents match tax raise with united states\n"),
        "{found}"
    );
    let listed = on(&["search", out, "tax", "--class", "country"]).good();
    assert_eq!(listed, "        1  United States\n");
    let ran = on(&["search", out, "tax", "--with", "Atlantis"]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.err.contains("entity `Atlantis`"), "{ran:?}");

    // A removal leaves the rest unchanged.
    on(&["corpus", "remove", file, "--url", "http://a.test/2"]).good();
    assert_eq!(documents(), all[..1]);
    assert_eq!(vertical(), rows[..rows.find("</doc>\n").unwrap() + 7]);

    // Meaningless settings are reported.
    for (steps, part) in [
        (
            "[[step]]\nkind = \"grammar\"\n[[step]]\nkind = \"mask\"\n",
            "put it behind",
        ),
        ("[[step]]\nkind = \"entities\"\n", "`list` is missing"),
        (
            "[[step]]\nkind = \"grammar\"\ncolumns = [\"lemmas\"]\n",
            "needs lists",
        ),
        (
            "[[step]]\nkind = \"grammar\"\n[[step]]\nkind = \"grammar\"\n",
            "another step",
        ),
        (
            "[[step]]\nkind = \"entities\"\nlist = \"none.tsv\"\n",
            "none.tsv",
        ),
    ] {
        write(steps);
        let message = on(&["corpus", "build", file, "--dry-run"]).refused();
        assert!(message.contains(part), "{steps}: {message}");
    }
}

#[test]
fn a_tagger_is_trained_and_tested() {
    let home = tempfile::tempdir().unwrap();
    let sentence = |words: &str| {
        let rows = words.split(' ').zip(1..).map(|(pair, number)| {
            let (word, tag) = pair.split_once('/').unwrap();
            format!("{number}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n")
        });
        rows.collect::<String>() + "\n"
    };
    let texts = [
        "die/DET Lampe/NOUN brennt/VERB",
        "sie/PRON brennt/VERB",
        "das/DET Haus/NOUN steht/VERB",
    ];
    let [bank, tagger, bad] = ["a.conllu", "de.tagger", "bad.conllu"].map(|n| path(home.path(), n));
    std::fs::write(&bank, texts.map(sentence).concat()).unwrap();
    std::fs::write(&bad, "1\tx\n").unwrap();
    let out = on(&[
        "tagger", "train", &bank, "--test", &bank, "--output", &tagger,
    ])
    .good();
    assert!(
        out.starts_with("learned 4 tags from 3 sentences; 1 KiB in "),
        "{out}"
    );
    assert!(
        out.ends_with("100.00 % of 8 words right; nouns: precision 100.00 %, recall 100.00 %\n"),
        "{out}"
    );
    let out = on(&["tagger", "test", &tagger, &bank, "--json"]).good();
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["right"], 8);
    let out = on(&["tagger", "tag", &tagger, "Die Lampe brennt."]).good();
    assert_eq!(out, "Die\tDET\nLampe\tNOUN\nbrennt\tVERB\n.\tPUNCT\n");
    let out = on(&["tagger", "tag", "en", "The lamp burned"]).good();
    assert_eq!(out, "The\tDET\nlamp\tNOUN\nburned\tVERB\n");
    let message = on(&["tagger", "train", &bad, "--output", &tagger]).refused();
    assert!(
        message.contains("bad.conllu, line 1: has fewer"),
        "{message}"
    );
    let message = on(&["tagger", "tag", "sv", "x"]).refused();
    assert!(message.contains("sv: "), "{message}");
}
