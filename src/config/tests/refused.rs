//! Refused files, with all messages.

use std::path::Path;

use super::super::*;
use super::said;

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    assert_eq!(said(text), expected, "for\n{text}");
}

const DURATION: &str =
    r#"a number of seconds, or a text with a unit as "500ms", "1s", "10m", "6h" or "1d""#;
const SIZE: &str =
    r#"a whole number of bytes, or a text with a unit as "500 KiB", "10 MiB" or "2 GB""#;

#[test]
fn several_errors_at_once_in_the_order_of_lines() {
    refused(
        r#"[politeness]
min_dely = 1
max_delay = "soon"
retries = 300

[job]
name = "Große Katze"
[network]
concurrency = "many"
"#,
        &[
            "x.toml:2:1: politeness.min_dely: unknown key; did you mean `min_delay`?",
            &format!(
                "x.toml:3:13: politeness.max_delay: \"soon\" is not a duration; allowed: {DURATION}, from 0s to 1d"
            ),
            "x.toml:4:11: politeness.retries: 300 is out of range; allowed: a whole number, from 0 to 20",
            "x.toml:7:8: job.name: \"Große Katze\" is not a name; allowed: 1 to 64 characters of a-z, 0-9, _ and -",
            "x.toml:9:15: network.concurrency: \"many\" is not a whole number; allowed: a whole number, from 1 to 4096",
            "5 errors in x.toml",
        ],
    );
}

#[test]
fn machines_of_a_cluster_need_their_store_and_a_place_for_checkpoints() {
    refused(
        r#"[job]
name = "cats"
[cluster]
brokers = ["nats://n1:4222", "http://n2:4222", "nats://me:secret@n3"]
node = "a..b"
cells = 1
"#,
        &[
            "x.toml:4:30: cluster.brokers: \"http://n2:4222\" is not the address of a broker; allowed: a list of brokers, each \"nats://HOST:PORT\" or \"tls://HOST:PORT\"",
            "x.toml:4:48: cluster.brokers: an address has a name or a password in it; write these to the file that cluster.credentials names; allowed: a list of brokers, each \"nats://HOST:PORT\" or \"tls://HOST:PORT\"",
            "x.toml:5:8: cluster.node: \"a..b\" has a dot that is not between two parts; allowed: 1 to 64 letters, digits, - and _, with dots between them",
            "x.toml:6:9: cluster.cells: 1 is out of range; allowed: a whole number, from 2 to 1024",
            "4 errors in x.toml",
        ],
    );
    refused(
        r#"[job]
name = "cats"
[frontier]
cells = 4
[checkpoint]
store = "file:///there"
[cluster]
brokers = ["nats://n1:4222"]
"#,
        &[
            "x.toml:4:9: frontier.cells: is 4; several cells need a store that gives back the space of one; set frontier.store = \"fjall\"",
            "x.toml:8:11: cluster.brokers: makes this machine part of a cluster, which needs a store that gives back the space of hosts that another machine takes over; set frontier.store = \"fjall\"",
            "x.toml:8:11: cluster.brokers: makes this machine part of a cluster, and there is no place for checkpoints; set cluster.store, as \"s3://BUCKET/PATH\"",
            "x.toml:8:11: cluster.brokers: makes this machine part of a cluster, whose checkpoints go to cluster.store; leave checkpoint.store out",
            "x.toml:8:11: cluster.brokers: makes this machine part of a cluster, which has cluster.cells; leave frontier.cells out",
            "5 errors in x.toml",
        ],
    );
}

#[test]
fn a_store_of_a_wrong_form_is_not_said_to_be_missing() {
    refused(
        r#"[job]
name = "cats"
[frontier]
store = "fjall"
[cluster]
brokers = ["nats://n1:4222"]
store = "s3:/bucket"
"#,
        &[
            "x.toml:7:9: cluster.store: \"s3:/bucket\" is not \"s3://BUCKET/PATH\" or \"file:///PATH\"; allowed: \"s3://BUCKET/PATH\" or \"file:///PATH\"",
            "1 error in x.toml",
        ],
    );
}

#[test]
fn unknown_names() {
    refused(
        r#"name = "cats"
[job]
name = "cats"
"quite else" = 1
[polite]
x = 1
[zebra]
[network]
retries = 3
max-redirects = 4
pdf = 1
"#,
        &[
            "x.toml:1:1: name: is outside any section; did you mean `job.name`?",
            "x.toml:4:1: job.\"quite else\": unknown key; known in [job] are name, contact, folder",
            "x.toml:5:2: polite: unknown section; did you mean `politeness`?",
            "x.toml:7:2: zebra: unknown section; known are annotate, archive, buckets, checkpoint, cluster, consent, control, control_sample, frontier, identity, images, job, limits, logs, model, network, pdf, politeness, rank, recrawl, rules, scope, seeds, strategy, text, train",
            "x.toml:9:1: network.retries: unknown key; did you mean `politeness.retries`?",
            "x.toml:10:1: network.max-redirects: unknown key; did you mean `max_redirects`?",
            "x.toml:11:1: network.pdf: unknown key; known in [network] are concurrency, allow_private, connect_to, proxy, connect_timeout, read_timeout, total_timeout, max_page_bytes, max_redirects, cookies, http2, extra_ca, user_agent",
            "7 errors in x.toml",
        ],
    );
}

#[test]
fn pauses_between_visits_that_do_not_fit() {
    refused(
        "job.name = 'x'\n[recrawl]\nafter = \"30m\"\n",
        &[
            "x.toml:3:9: recrawl.after: is 30m; allowed: at least recrawl.min (1h, the default)",
            "1 error in x.toml",
        ],
    );
    refused(
        "job.name = 'x'\n[recrawl]\nmin = \"2d\"\nmax = \"1d\"\n",
        &[
            "x.toml:4:7: recrawl.max: is 1d; allowed: at least recrawl.min (2d)",
            "1 error in x.toml",
        ],
    );
    refused(
        "job.name = 'x'\n[recrawl]\nafter = \"61d\"\nmin = \"0s\"\n",
        &[
            "x.toml:3:9: recrawl.after: is 61d; allowed: at most recrawl.max (60d, the default)",
            &format!(
                "x.toml:4:7: recrawl.min: 0s is out of range; allowed: {DURATION}, from 1ms to 366d"
            ),
            "2 errors in x.toml",
        ],
    );
}

#[test]
fn wrong_types() {
    refused(
        r#"[job]
name = 7
[train]
order = 5.0
keywords = true
held_out = "a third"
positive = "cats.txt"
documents = "blank-line"
[images]
enabled = "yes"
max_bytes = 1.5
[limits]
time = 1979-05-27
documents = { a = 1 }
bytes = "10 Mb"
[strategy]
kind = "fancy"
"#,
        &[
            "x.toml:2:8: job.name: 7 is not a name; allowed: 1 to 64 characters of a-z, 0-9, _ and -",
            "x.toml:4:9: train.order: 5.0 is not a whole number; allowed: a whole number, from 2 to 6",
            "x.toml:5:12: train.keywords: true is not a whole number; allowed: a whole number, from 1 to 10000",
            "x.toml:6:12: train.held_out: \"a third\" is not a number; allowed: a number, from 0.0 to 0.9",
            "x.toml:7:12: train.positive: \"cats.txt\" is not a list of training sources; allowed: a list of training sources, each a URL, or the path of an HTML, text or PDF file or of a folder of these",
            "x.toml:8:13: train.documents: \"blank-line\" is not a separator of documents; did you mean \"blank_line\"?; allowed: one of \"blank_line\", \"file\"",
            "x.toml:10:11: images.enabled: \"yes\" is not true or false; allowed: true or false",
            &format!(
                "x.toml:11:13: images.max_bytes: 1.5 is not a size; allowed: {SIZE}, from 1 KiB to 1 GiB"
            ),
            &format!(
                "x.toml:13:8: limits.time: the date 1979-05-27 is not a duration; allowed: {DURATION}, 1s or more"
            ),
            "x.toml:14:13: limits.documents: a table is not a whole number; allowed: a whole number, 1 or more",
            &format!(
                "x.toml:15:9: limits.bytes: \"10 Mb\" is not a size; allowed: {SIZE}, 1 or more"
            ),
            "x.toml:17:8: strategy.kind: \"fancy\" is not a strategy; allowed: one of \"unfocused\", \"document\", \"link\", \"learn\"",
            "12 errors in x.toml",
        ],
    );
}

#[test]
fn numbers_that_no_type_holds() {
    refused(
        r#"job.name = "x"
[limits]
documents = 99999999999999999999999999
bytes = 0xFFFF_FFFF_FFFF_FFFF_F
time = 1e300
fetches = -1
[politeness]
min_delay = -1
max_delay = nan
delay_factor = inf
back_off = 1e999
max_back_off = 0.0001
bytes_per_second = "-1 KiB"
requests_per_second = 0
[images]
max_bytes = "1.0001 KiB"
min_width = 4_294_967_296
[buckets]
high = 0
"#,
        &[
            "x.toml:3:13: limits.documents: 99999999999999999999999999 is out of range; allowed: a whole number, 1 or more",
            &format!(
                "x.toml:4:9: limits.bytes: 0xFFFFFFFFFFFFFFFFF is out of range; allowed: {SIZE}, 1 or more"
            ),
            &format!(
                "x.toml:5:8: limits.time: 1e300 is out of range; allowed: {DURATION}, 1s or more"
            ),
            "x.toml:6:11: limits.fetches: -1 is out of range; allowed: a whole number, 1 or more",
            &format!(
                "x.toml:8:13: politeness.min_delay: -1 is out of range; allowed: {DURATION}, from 0s to 1d"
            ),
            &format!(
                "x.toml:9:13: politeness.max_delay: nan is not a finite number; allowed: {DURATION}, from 0s to 1d"
            ),
            "x.toml:10:16: politeness.delay_factor: inf is not a finite number; allowed: a number, from 0.0 to 100.0",
            &format!(
                "x.toml:11:12: politeness.back_off: 1e999 is not a finite number; allowed: {DURATION}, from 1ms to 1d"
            ),
            &format!(
                "x.toml:12:16: politeness.max_back_off: 0.0001 is finer than a millisecond; allowed: {DURATION}, from 1ms to 30d"
            ),
            &format!(
                "x.toml:13:20: politeness.bytes_per_second: \"-1 KiB\" is out of range; allowed: {SIZE}, from 1 KiB to 1 TiB"
            ),
            "x.toml:14:23: politeness.requests_per_second: 0.0 is out of range; allowed: a number, from 0.001 to 1000000.0",
            &format!(
                "x.toml:16:13: images.max_bytes: \"1.0001 KiB\" is not a whole number of bytes; allowed: {SIZE}, from 1 KiB to 1 GiB"
            ),
            "x.toml:17:13: images.min_width: 4294967296 is out of range; allowed: a whole number, from 0 to 65535",
            "x.toml:19:8: buckets.high: 0.0 is out of range; allowed: a number, above 0.0",
            "14 errors in x.toml",
        ],
    );
}

#[test]
fn keys_that_contradict_each_other() {
    refused(
        r#"[job]
name = "x"
[buckets]
high = 2500
normal = 40000.0
[politeness]
min_delay = "2m"
max_back_off = "10s"
back_off = "20s"
[images]
min_width = 300
max_width = 200
[scope]
schemes = []
"#,
        &[
            "x.toml:4:8: buckets.high: is 2500.0; allowed: below buckets.medium (2000.0, the default)",
            "x.toml:5:10: buckets.normal: is 40000.0; allowed: below buckets.razor (30000.0, the default)",
            "x.toml:7:13: politeness.min_delay: is 2m; allowed: at most politeness.max_delay (1m, the default)",
            "x.toml:9:12: politeness.back_off: is 20s; allowed: at most politeness.max_back_off (10s)",
            "x.toml:12:13: images.max_width: is 200; allowed: at least images.min_width (300)",
            "x.toml:14:11: scope.schemes: is an empty list; allowed: a list of schemes, each one of \"http\", \"https\"",
            "6 errors in x.toml",
        ],
    );
    // Boundaries may not even be equal; an invalid value is not compared.
    refused(
        "[job]\nname = \"x\"\n[buckets]\nhigh = 2000\nnormal = \"?\"\nrazor = 1\n",
        &[
            "x.toml:4:8: buckets.high: is 2000.0; allowed: below buckets.medium (2000.0, the default)",
            "x.toml:5:10: buckets.normal: \"?\" is not a number; allowed: a number, above 0.0",
            "2 errors in x.toml",
        ],
    );
}

#[test]
fn what_is_required() {
    let allowed = "allowed: 1 to 64 characters of a-z, 0-9, _ and -";
    let at = |place: &str| format!("x.toml:{place}: job.name: is required; {allowed}");
    refused("", &[&at("1:1"), "1 error in x.toml"]);
    refused("\n[text]\n", &[&at("1:1"), "1 error in x.toml"]);
    refused(
        "[text]\n\n[job]\nfolder = \"x\"\n",
        &[&at("3:2"), "1 error in x.toml"],
    );
    refused(
        "job = 3",
        &[
            "x.toml:1:1: job: 3 is not a section; write [job]",
            "1 error in x.toml",
        ],
    );
    refused(
        "[[job]]\nname = \"x\"\n",
        &[
            "x.toml:1:3: job: is a list; write [job], once",
            "1 error in x.toml",
        ],
    );
}

#[test]
fn syntax_errors_stand_beside_the_others() {
    refused(
        "[job]\nname \"x\"\n",
        &[
            "x.toml:2:6: not valid TOML: key with no value, expected `=`",
            "1 error in x.toml",
        ],
    );
    refused(
        "[job\nname = \"x\"\n[limits]\ndocuments = 0\nfetches = 1 2\n[txt]\n",
        &[
            "x.toml:1:5: not valid TOML: unclosed table, expected `]`",
            "x.toml:4:13: limits.documents: 0 is out of range; allowed: a whole number, 1 or more",
            "x.toml:5:11: not valid TOML: string values must be quoted, expected literal string",
            "x.toml:6:2: txt: unknown section; did you mean `text`?",
            "4 errors in x.toml",
        ],
    );
    // Text swallowed by an open quotation mark does not count as an error of its key, and in a tree
    // that may be cut short nothing counts as missing.
    refused(
        "[text]\nmax_bytes = \"\"\"2 MiB\n[job]\nname = \"x\"\n",
        &[
            "x.toml:5:1: not valid TOML: invalid multi-line basic string, expected `\"`",
            "1 error in x.toml",
        ],
    );
}

#[test]
fn keys_and_sections_given_twice() {
    refused(
        "[job]\nname = \"x\"\nname = \"y\"\n[ job ]\nfolder = \"a\"\n[limits]\ndocuments = 1\n  documents = 0\n",
        &[
            "x.toml:3:1: job.name: key given twice",
            "x.toml:4:3: job: section given twice",
            "x.toml:8:3: limits.documents: key given twice",
            "3 errors in x.toml",
        ],
    );
    refused(
        "job.name = \"x\"\njob.name = \"y\"\n",
        &["x.toml:2:5: job.name: key given twice", "1 error in x.toml"],
    );
}

#[test]
fn every_item_of_a_list_by_its_place() {
    let allowed = "allowed: a list of URLs, each an http or https URL in full, as \"https://example.org/page\"";
    refused(
        "[job]\nname = \"x\"\n[seeds]\nurls = [\"ftp://a.org/\", \"http://b.org\",\n  3,\n  \"b.org\"]\n",
        &[
            &format!(
                "x.toml:4:9: seeds.urls: `ftp:` addresses are not crawled, only http and https; {allowed}"
            ),
            &format!("x.toml:5:3: seeds.urls: 3 is not a URL; {allowed}"),
            &format!(
                "x.toml:6:3: seeds.urls: `b.org` is not a URL: relative URL without a base; write it in full, as in https://example.org/page; {allowed}"
            ),
            "3 errors in x.toml",
        ],
    );
}

#[test]
fn columns_are_characters_and_a_message_is_a_line() {
    refused(
        "\u{feff}\"ä\\n\\u202E\" = 1 \njob = { name = 'ü', folder = \"\" }\r\n",
        &[
            r#"x.toml:1:1: "ä\u{a}\u{202e}": is outside any section"#,
            "x.toml:2:16: job.name: \"ü\" is not a name; allowed: 1 to 64 characters of a-z, 0-9, _ and -",
            "x.toml:2:30: job.folder: \"\" is not a path; allowed: a path",
            "3 errors in x.toml",
        ],
    );
    let long = format!("[job]\nname = \"{}\"\n", "x".repeat(100_000));
    assert!(said(&long)[0].len() < 300, "{}", said(&long)[0]);
    let long = format!("{} = 1\n[job]\nname = \"x\"\n", "x".repeat(100_000));
    assert!(said(&long)[0].len() < 300, "{}", said(&long)[0]);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.toml");
    let said = Config::load(&missing).unwrap_err().to_string();
    let begin = format!("{}: cannot be read: ", missing.display());
    assert!(said.starts_with(&begin), "{said}");
    assert!(
        said.ends_with(&format!("\n1 error in {}", missing.display())),
        "{said}"
    );

    let errors = Config::load(folder.path()).unwrap_err();
    assert_eq!(errors.errors().len(), 1);
    assert_eq!(errors.errors()[0].place, None);

    let binary = folder.path().join("latin1.toml");
    std::fs::write(&binary, b"[job]\n# \xc3\xbc \xfc\nname = \"x\"\n").unwrap();
    let name = binary.display();
    assert_eq!(
        Config::load(&binary).unwrap_err().to_string(),
        format!(
            "{name}:2:5: not UTF-8, as TOML must be; save the file as UTF-8\n1 error in {name}"
        )
    );

    let good = folder.path().join("good.toml");
    std::fs::write(&good, "[job]\nname = \"good\"\n").unwrap();
    assert_eq!(Config::load(&good).unwrap().job.name.as_str(), "good");
}

#[test]
fn parts_of_an_error_can_be_asked_for() {
    let errors = Config::parse("[job]\nname = 1\n", "a/b.toml").unwrap_err();
    assert_eq!(
        errors.errors(),
        [FileError {
            file: "a/b.toml".to_owned(),
            place: Some(FilePosition { line: 2, column: 8 }),
            key: "job.name".to_owned(),
            message: "1 is not a name; allowed: 1 to 64 characters of a-z, 0-9, _ and -".to_owned(),
        }]
    );
    assert!(Config::load(Path::new("")).is_err());
}

#[test]
fn a_ranking_that_cannot_be() {
    refused(
        "job.name = 'x'\n[rank]\nformula = \"sqrt(alt.weighted * parent.weighted)\"\n\
         formats = [\"jpg\"]\nfrom = 10\nto = 1\n",
        &[
            &format!(
                "x.toml:3:11: rank.formula: \"sqrt(alt.weighted * parent.weighted)\" is not a \
                 formula: at character 21, `parent.weighted` is not a known name; did you mean \
                 `parent1.weighted`?; allowed: {FORMULA}"
            ),
            "x.toml:4:12: rank.formats: \"jpg\" is not an image format; did you mean \"jpeg\"?; allowed: a list of image formats, each one of \"jpeg\", \"png\", \"gif\", \"webp\", \"bmp\", \"tiff\", \"ico\"",
            "x.toml:6:6: rank.to: is 1.0; allowed: at least rank.from (10.0)",
            "3 errors in x.toml",
        ],
    );
}

#[test]
fn classes_that_contradict_each_other() {
    refused(
        r#"[job]
name = "cats"
[annotate]
classes = ["cat", "dog", "cat"]
on_topic = []
qualify = 1.5
"#,
        &[
            "x.toml:4:11: annotate.classes: \"cat\" is listed twice; allowed: each class once",
            "x.toml:5:12: annotate.on_topic: is an empty list; allowed: a list of class names, each 1 to 40 characters on one line",
            "x.toml:6:11: annotate.qualify: 1.5 is out of range; allowed: a number, from 0.0 to 1.0",
            "3 errors in x.toml",
        ],
    );
    refused(
        "[job]\nname = \"cats\"\n[annotate]\nclasses = [\"cat\", \"dog\"]\n",
        &[
            "x.toml:4:11: annotate.on_topic: \"on topic\" is not among annotate.classes; add it, or leave it out",
            "1 error in x.toml",
        ],
    );
    refused(
        "[job]\nname = \"cats\"\n[annotate]\nclasses = [\"on topic\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\", \"10\"]\n",
        &[
            "x.toml:4:11: annotate.classes: has 10 classes; allowed: at most 9",
            "1 error in x.toml",
        ],
    );
}

const FORMULA: &str = <Formula as TextValue>::FORM;

#[test]
fn no_file_costs_more_than_its_first_errors() {
    let message = |text: &str| Config::parse(text, "x.toml").unwrap_err().to_string();
    let many = "k = 1\n".repeat(2_000);
    for (text, last) in [
        (
            format!(
                "[job]\nname = \"x\"\n[scope]\nreject = [{}]",
                "\"?\",".repeat(5_000)
            ),
            "100 errors in x.toml",
        ),
        (
            format!(
                "[job]\nname = \"x\"\n[scope]\n{}",
                (0..5_000)
                    .map(|n| format!("k{n} = 1\n"))
                    .collect::<String>()
            ),
            "5000 errors in x.toml",
        ),
        (
            format!(
                "[job]\nname = \"x\"\n{}",
                (0..5_000).map(|n| format!("[k{n}]\n")).collect::<String>()
            ),
            "5000 errors in x.toml",
        ),
        (
            format!("[job]\nname = \"x\"\n[scope]\n{many}"),
            "101 errors in x.toml",
        ),
    ] {
        let said = message(&text);
        assert!(
            said.ends_with(last),
            "{}",
            said.lines().next_back().unwrap()
        );
        assert!(said.lines().count() <= 103, "{}", said.lines().count());
    }
    let rules = |rule: &str, n: usize| {
        let rules = format!("'regex:{rule}',").repeat(n);
        Config::parse(
            &format!("[job]\nname = 'x'\n[scope]\nreject = [{rules}]"),
            "x.toml",
        )
    };
    assert_eq!(rules("/print/", 2_000).unwrap().scope.reject.len(), 2_000);
    let said = rules(r"x\w{30}", 50).unwrap_err().to_string();
    assert!(
        said.contains("the list up to here takes more than 32 MiB of memory"),
        "{said}"
    );
    let said = rules(&"x".repeat(70_000), 1).unwrap_err().to_string();
    assert!(said.contains("is too large a pattern"), "{said}");
}
