//! Experiments: variants of a crawl side by side, offline and with the same result every time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use spoor_lab::demo;

use crate::lab;

/// The built-in web as a folder, its training texts, and a plan that compares on it.
fn plan(folder: &Path) -> String {
    let web = demo::web();
    web.write_to(folder.join("web")).unwrap();
    std::fs::write(folder.join("labels.tsv"), &web.labels).unwrap();
    std::fs::write(folder.join("seeds.txt"), web.seeds.join("\n")).unwrap();
    let training = demo::training();
    let write = |name: &str, texts: &[(String, String)]| {
        let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        std::fs::write(folder.join(name), all.join("\n\n")).unwrap();
    };
    write("positive.txt", &training.positive);
    write("neutral.txt", &training.neutral);
    let at = |name: &str| folder.join(name);
    format!(
        "web = {:?}\nlabels = {:?}\nout = {:?}\nfetches = 120\nmarks = [60, 120, 1000]\n\
         seeds = [1, 2]\n[job]\nimages.min_width = 60\n\
         [[topic]]\nname = \"{}\"\npositive = [{:?}]\nneutral = [{:?}]\nbegin.mixed = {:?}\n\
         [[variant]]\nname = \"breadth\"\njob.strategy.kind = \"unfocused\"\n\
         [[variant]]\nname = \"learn\"\n",
        at("web"),
        at("labels.tsv"),
        at("out"),
        demo::TOPIC,
        at("positive.txt"),
        at("neutral.txt"),
        at("seeds.txt"),
    )
}

fn run(folder: &Path, plan: &str) -> Output {
    let file = folder.join("plan.toml");
    std::fs::write(&file, plan).unwrap();
    lab(&["experiment", file.to_str().unwrap()])
        .output()
        .unwrap()
}

/// How many pages of the topic each run found with this many lines of the texts (`null` for all),
/// by variant and seed, with its curve.
fn found(folder: &Path, lines: &Value) -> BTreeMap<(String, u64), (u64, Value)> {
    let text = std::fs::read_to_string(folder.join("out/runs.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let runs = all["runs"].as_array().unwrap().iter();
    let runs = runs.filter(|run| run["lines"] == *lines);
    runs.map(|run| {
        let curve = run["curve"].clone();
        let last = curve.as_array().unwrap().last().unwrap().as_u64().unwrap();
        let variant = run["variant"].as_str().unwrap().to_owned();
        assert!(run["images"].as_u64().unwrap() > 0, "{variant}");
        ((variant, run["seed"].as_u64().unwrap()), (last, curve))
    })
    .collect()
}

#[test]
fn variants_are_compared_offline_and_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let first = run(folder.path(), &plan);
    assert!(first.status.success(), "{first:?}");
    let once = found(folder.path(), &Value::Null);
    assert_eq!(once.len(), 5, "two variants with two seeds, and the oracle");
    let of = |variant: &str, seed| once[&(variant.to_owned(), seed)].0;
    let (oracle, learn, breadth) = (of("oracle", 1), of("learn", 1), of("breadth", 1));
    assert!(
        oracle >= learn && learn > breadth,
        "{oracle} {learn} {breadth}"
    );
    assert_eq!(
        once[&("breadth".to_owned(), 1)],
        once[&("breadth".to_owned(), 2)]
    );
    let table = std::fs::read_to_string(folder.path().join("out/table.md")).unwrap();
    assert!(String::from_utf8(first.stdout).unwrap().contains(&table));
    assert!(
        table.contains("at 60") && !table.contains("at 1000"),
        "{table}"
    );
    assert!(table.contains("100.0 %"), "{table}");
    let plot = format!("out/harvest-{}-mixed.svg", demo::TOPIC);
    let plot = std::fs::read_to_string(folder.path().join(plot)).unwrap();
    assert!(plot.contains("learn") && plot.contains("breadth"));
    let left = std::fs::read_dir(folder.path().join("out")).unwrap();
    let hidden = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".run")
    });
    assert_eq!(hidden.count(), 0);
    // The same web as an archive of a crawl, and half of the texts besides all of them.
    let archive = folder.path().join("web.warc.gz");
    std::fs::write(&archive, demo::web().warc().unwrap()).unwrap();
    let archived = plan.replacen("/web\"", "/web.warc.gz\"", 1);
    assert_ne!(archived, plan);
    let text = std::fs::read_to_string(folder.path().join("positive.txt")).unwrap();
    let half = text.lines().filter(|line| !line.trim().is_empty()).count() / 2;
    let sized = archived.replacen("\n[job]", &format!("\nlines = [{half}]\n[job]"), 1);
    let second = run(folder.path(), &sized);
    assert!(second.status.success(), "{second:?}");
    assert_eq!(found(folder.path(), &Value::Null), once);
    let with_half = found(folder.path(), &Value::from(half));
    assert_eq!(with_half.len(), 4, "the oracle needs no text");
    let of = |variant: &str| (variant.to_owned(), 1);
    assert_eq!(with_half[&of("breadth")], once[&of("breadth")]);
    assert_ne!(with_half[&of("learn")], once[&of("learn")]);
    for name in [demo::TOPIC, "mean"] {
        let plot = folder.path().join(format!("out/{name}-mixed-lines.svg"));
        let plot = std::fs::read_to_string(plot).unwrap();
        assert!(plot.contains("learn") && !plot.contains("oracle\n"));
    }
}

/// With several open requests, the seed determines the order of the answers.
#[test]
fn several_requests_are_open_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let one = plan(folder.path()).replacen("fetches = 120", "fetches = 60", 1);
    let eight = one.replacen("\n[job]", "\nconcurrency = 8\n[job]", 1);
    let results = [&one, &eight, &eight].map(|plan| {
        let ended = run(folder.path(), plan);
        assert!(ended.status.success(), "{ended:?}");
        found(folder.path(), &Value::Null)
    });
    let [one, eight, again] = &results;
    assert_eq!(eight, again);
    let of = |variant: &str, seed| (variant.to_owned(), seed);
    assert_eq!(eight[&of("oracle", 1)], one[&of("oracle", 1)]);
    assert_eq!(one[&of("breadth", 1)], one[&of("breadth", 2)]);
    for seed in [1, 2] {
        let curve = eight[&of("learn", seed)].1.as_array().unwrap();
        assert_eq!(curve.len(), 60, "no fetch more than allowed");
    }
    assert_ne!(eight[&of("breadth", 1)], eight[&of("breadth", 2)]);
}

/// Machines that share a crawl find about as much as one, and the same every time.
#[test]
fn a_crawl_is_divided_among_machines() {
    let folder = tempfile::tempdir().unwrap();
    let divided = "[[variant]]\nname = \"one\"\nmachines = 1\ncells = 8\n\
         job.frontier.store = \"fjall\"\n\
         [[variant]]\nname = \"four\"\nmachines = 4\ncells = 8\n\
         job.frontier.store = \"fjall\"\n\
         [[variant]]\nname = \"apart\"\nmachines = 4\ncells = 8\nlinger = 3\n\
         job.frontier.store = \"fjall\"\n";
    let one_seed = plan(folder.path()).replacen("seeds = [1, 2]", "seeds = [1]", 1);
    let plan = [one_seed.as_str(), divided].concat();
    let first = run(folder.path(), &plan);
    assert!(first.status.success(), "{first:?}");
    let once = found(folder.path(), &Value::Null);
    let of = |variant: &str| &once[&(variant.to_owned(), 1)];
    for variant in ["one", "four", "apart"] {
        let (pages, curve) = of(variant);
        let curve = curve.as_array().unwrap();
        assert_eq!(curve.len(), of("learn").1.as_array().unwrap().len());
        assert!(*pages > of("breadth").0, "{variant}: {pages}");
    }
    let second = run(folder.path(), &plan);
    assert!(second.status.success(), "{second:?}");
    assert_eq!(found(folder.path(), &Value::Null), once);
}

#[test]
fn a_wrong_plan_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let right = plan(folder.path());
    let divided = right.replacen("name = \"learn\"", "name = \"two\"\nmachines = 2", 1);
    let ended = run(
        folder.path(),
        &divided.replacen("\n[job]", "\nconcurrency = 2\n[job]", 1),
    );
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        !ended.status.success() && said.contains("the variant `two` is divided among machines"),
        "{said}"
    );
    for (from, to, says) in [
        (
            "fetches = 120",
            "fetches = 0",
            "`fetches` must be at least 1",
        ),
        ("fetches = 120", "fetchs = 120", "unknown field `fetchs`"),
        (
            "\n[job]",
            "\nconcurrency = 0\n[job]",
            "`concurrency` must be at least 1",
        ),
        (
            "name = \"learn\"",
            "name = \"breadth\"",
            "two variants are called `breadth`",
        ),
        (
            "kind = \"unfocused\"",
            "kind = \"random\"",
            "is not a strategy",
        ),
        ("begin.mixed = ", "begin.mixed.file = ", "plan.toml"),
        (
            "name = \"learn\"",
            "name = \"learn\"\nmachines = 5\ncells = 4",
            "the variant `learn` has 5 machines and 4 cells; `cells` is from 1 to 1024",
        ),
        (
            "name = \"learn\"",
            "name = \"learn\"\nmachines = 2\njob.frontier.store = \"sled\"",
            "set frontier.store = \"fjall\"",
        ),
        (
            "name = \"lighthouses\"",
            "name = \"bees\"",
            "no page of the topic `bees`",
        ),
        (
            "neutral = [",
            "neutral = [\"http://a.test/\", ",
            "names http://a.test/, but an experiment fetches nothing",
        ),
        ("labels.tsv", "labels.csv", "labels.csv"),
        (
            "\n[job]",
            "\nlines = [1]\n[job]",
            "name larger sizes in `lines`",
        ),
        ("/web\"", "/wab\"", "/wab"),
    ] {
        let plan = right.replacen(from, to, 1);
        assert_ne!(plan, right, "{from}");
        let ended = run(folder.path(), &plan);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(
            !ended.status.success() && said.contains(says),
            "{says}: {said}"
        );
    }
}
