//! What each kind of value accepts, and how it is written back.

use std::path::PathBuf;
use std::time::Duration;

use super::super::*;
use super::{parsed, said};
use crate::address::PageUrl;

#[test]
fn durations() {
    for (given, expected, canonical) in [
        ("0", 0, "0s"),
        ("\"0ms\"", 0, "0s"),
        ("1", 1_000, "1s"),
        ("0.3", 300, "300ms"),
        ("1.5", 1_500, "1500ms"),
        ("\"500ms\"", 500, "500ms"),
        ("\" 10 m \"", 600_000, "10m"),
        ("\"90s\"", 90_000, "90s"),
        ("\"1.5h\"", 5_400_000, "90m"),
        ("\"24h\"", 86_400_000, "1d"),
        ("86_400", 86_400_000, "1d"),
    ] {
        let config = parsed(&format!(
            "[politeness]\nmin_delay = {given}\nmax_delay = \"1d\""
        ));
        let delay = config.politeness.min_delay;
        assert_eq!(delay, Duration::from_millis(expected), "{given}");
        let line = format!("\nmin_delay = \"{canonical}\"\n");
        assert!(config.to_toml().contains(&line), "{given} as {line}");
    }
    for given in [
        "1e", "s", "1 S", "1min", "1h30m", "+1s", "1,5s", "1s s", "infs", "0x1s", "1e3s", "--1s",
        ".",
    ] {
        let said = said(&format!(
            "job.name = 'x'\npoliteness.min_delay = \"{given}\""
        ));
        assert!(
            said[0].contains(&format!("\"{given}\" is not a duration")),
            "{said:?}"
        );
    }
}

#[test]
fn sizes() {
    for (given, expected, canonical) in [
        ("1", 1, "1"),
        ("1023", 1_023, "1023"),
        ("1024", 1_024, "\"1 KiB\""),
        ("\"10 MiB\"", 10 << 20, "\"10 MiB\""),
        ("\"500KiB\"", 512_000, "\"500 KiB\""),
        ("\"2 GB\"", 2_000_000_000, "\"2 GB\""),
        ("\"3 kB\"", 3_000, "\"3 KB\""),
        ("\"1.5 GiB\"", 3 << 29, "\"1536 MiB\""),
        ("\"12 B\"", 12, "12"),
        ("18446744073709551615", u64::MAX, "18446744073709551615"),
        (
            "20_000_000_000_000_000",
            20_000_000_000_000_000,
            "20000000000000000",
        ),
    ] {
        let config = parsed(&format!("[limits]\nbytes = {given}"));
        assert_eq!(config.limits.bytes, Some(Size(expected)), "{given}");
        let line = format!("\nbytes = {canonical}\n");
        assert!(config.to_toml().contains(&line), "{given} as {line}");
    }
    assert_eq!(Size::mib(10).to_string(), "10 MiB");
    assert_eq!(Size::kib(1).as_len(), 1_024);
    for given in ["MiB", "1 mib", "1 Mb", "1 PiB", "1e3 kB", "1 k"] {
        let said = said(&format!("job.name = 'x'\nlimits.bytes = \"{given}\""));
        assert!(
            said[0].contains(&format!("\"{given}\" is not a size")),
            "{said:?}"
        );
    }
}

#[test]
fn contacts() {
    for (given, expected) in [
        ("mailto:crawl@uni.example", "mailto:crawl@uni.example"),
        ("MAILTO:a.b+c@uni.example", "MAILTO:a.b+c@uni.example"),
        (" me@localhost ", "me@localhost"),
        ("HTTPS://Uni.example/bot", "https://uni.example/bot"),
    ] {
        let config = parsed(&format!("contact = \"{given}\""));
        assert_eq!(config.contact().map(Contact::as_str), Ok(expected));
    }
    for given in [
        "",
        "me",
        "@uni.example",
        "me@",
        "me@uni",
        "me@uni..example",
        "a b@uni.example",
        ".a@uni.example",
        "me@-uni.example",
        "mailto:",
        "mailto:https://uni.example/",
        "ftp://uni.example/",
        "https://",
        "https://uni.example/(bot)",
        "ü@uni.example",
        "a@b@uni.example",
        "me@uni.example\\r\\nX: y",
    ] {
        let said = said(&format!("job.name = 'x'\njob.contact = \"{given}\""));
        assert!(
            said.len() == 2 && said[0].starts_with("x.toml:2:15: job.contact: "),
            "{given}: {said:?}"
        );
    }
    let missing = parsed("").contact().unwrap_err();
    assert_eq!(missing, ContactMissing);
    assert!(missing.to_string().contains("job.contact is not set"));
}

#[test]
fn scope_rules_cover_what_they_say() {
    let covers = |rule: &ScopeRule, url: &str| {
        let url = PageUrl::parse(url).unwrap();
        rule.covers(&url, &url.surt())
    };
    for (rule, prefix, covered, not_covered) in [
        (
            "org,example",
            "org,example",
            &[
                "http://example.org/",
                "https://www.example.org/a",
                "http://example.org:8080/",
            ][..],
            &["http://examples.org/", "http://org/"][..],
        ),
        (
            "org,example,",
            "org,example,",
            &["http://www.example.org/"],
            &["http://example.org/", "http://examples.org/"],
        ),
        (
            "org,example)/cats",
            "org,example)/cats",
            &["http://example.org/cats/1", "http://example.org/catsuit"],
            &["http://example.org/dogs", "http://www.example.org/cats"],
        ),
        (
            "https://example.org",
            "org,example",
            &["http://example.org/", "https://www.example.org/a"],
            &["http://examples.org/"],
        ),
        (
            "https://Example.org/",
            "org,example)/",
            &["http://example.org/a"],
            &["http://www.example.org/"],
        ),
        (
            "http://(org,example,)/a",
            "org,example)/a",
            &["https://example.org/a?b"],
            &["https://example.org/b"],
        ),
        (
            "http://127.0.0.1:8080",
            "127.0.0.1:8080",
            &["http://127.0.0.1:8080/a"],
            &["http://127.0.0.1/", "http://127.0.0.1:8081/"],
        ),
        (
            "[::0:1]",
            "[::1]",
            &["http://[::1]/", "http://[::1]:81/"],
            &["http://[::2]/"],
        ),
        ("com", "com", &["http://a.com/"], &["http://a.commerce/"]),
        (
            "host:WWW.Example.org.",
            "host:www.example.org",
            &["https://www.example.org/a", "http://www.example.org:81/"],
            &["http://example.org/", "http://a.www.example.org/"],
        ),
        (
            "host:example.org:443",
            "host:example.org:443",
            &["https://example.org/"],
            &["http://example.org/", "https://example.org:444/"],
        ),
        (
            "host:[::0:1]:80",
            "host:[::1]:80",
            &["http://[::1]/"],
            &["http://[::1]:81/"],
        ),
        (
            "regex:/(cat|dog)s?/[0-9]+$",
            "regex:/(cat|dog)s?/[0-9]+$",
            &["http://a.org/cat/1", "http://b.org/x/dogs/22"],
            &["http://a.org/cat/1?a", "http://a.org/CAT/1"],
        ),
        (
            "http://(host:81",
            "http://(host:81",
            &["http://host:81/"],
            &["http://host/", "http://0.0.0.81/"],
        ),
    ] {
        let config = parsed(&format!("[scope]\naccept = [\"{rule}\"]"));
        let read = &config.scope.accept[0];
        assert_eq!(read.as_str(), prefix, "{rule}");
        for url in covered {
            assert!(covers(read, url), "{rule} covers {url}");
        }
        for url in not_covered {
            assert!(!covers(read, url), "{rule} covers not {url}");
        }
    }
    for given in [
        "",
        ",",
        "example.org",
        "www.example.org/cats",
        "org,,example",
        "ftp://example.org/",
        "http://(",
        "org,example)cats",
        "org,example:x)/",
        "org,example:",
        "örg",
        "http://",
        ".",
        ")/",
        "http://..a/",
        "org,example,,)/",
        "host:",
        "host:a b",
        "host:example.org/a",
        "host:me@example.org",
        "host:example.org:99999",
        "regex:",
        "regex:(cat",
        "regex:(((a{100}){100}){100}){100}",
    ] {
        let said = said(&format!("job.name = 'x'\nscope.reject = [\"{given}\"]"));
        assert!(
            said.len() == 2 && said[0].starts_with("x.toml:2:17: scope.reject: "),
            "{given}: {said:?}"
        );
    }
}

#[test]
fn types_cover_what_they_say() {
    let config = parsed("[scope]\naccept_types = ['Text/*', 'application/xhtml+xml']");
    let covered = |media: &str| config.scope.accept_types.iter().any(|t| t.covers(media));
    assert!(covered("text/html") && covered("application/xhtml+xml"));
    assert!(!covered("textual/html") && !covered("application/xml"));
    assert!(config.to_toml().contains("accept_types = [\"text/*\", "));
    for given in [
        "['text']",
        "['*/*']",
        "['text/']",
        "['a/b/c']",
        "['text/html; q=1']",
        "[]",
    ] {
        let said = said(&format!("job.name = 'x'\nscope.accept_types = {given}"));
        assert!(
            said.len() == 2 && said[0].starts_with("x.toml:2:2"),
            "{given}: {said:?}"
        );
    }
}

#[test]
fn differences_name_their_keys() {
    let one = parsed("[scope]\nmax_hops = 3\n[limits]\ntime = 9");
    let other = parsed("[scope]\nmax_hops = 4\n[text]\nsentences = false");
    let keys = ["limits.time", "scope.max_hops", "text.sentences"];
    let changes = one.changes(&other);
    assert!(changes.iter().map(|c| &c.key).eq(keys), "{changes:?}");
    let hops = changes.iter().find(|c| c.key == "scope.max_hops").unwrap();
    assert_eq!(
        (hops.from.as_deref(), hops.to.as_deref()),
        (Some("3"), Some("4"))
    );
    assert_eq!(changes[0].to, None, "the other has no limit");
    assert_eq!(one.changes(&one), []);
    assert_ne!(one.scope.to_toml(), other.scope.to_toml());
}

#[test]
fn connections_that_go_elsewhere() {
    let rule = |text: &str| {
        let config = parsed(&format!("[network]\nconnect_to = ['{text}']"));
        config.network.connect_to[0].clone()
    };
    let any = rule("::127.0.0.1:8080");
    assert_eq!(any.host, HostPattern::Any);
    assert_eq!(
        (any.port, any.to_host.as_str(), any.to_port),
        (None, "127.0.0.1", Some(8080))
    );
    assert!(any.matches("example.org", 80) && any.matches("[::1]", 443));

    let below = rule("*.Example.ORG:80:[::1]:");
    assert_eq!(below.host, HostPattern::Below("example.org".to_owned()));
    assert_eq!(
        (below.port, below.to_host.as_str(), below.to_port),
        (Some(80), "::1", None)
    );
    assert!(below.matches("a.b.EXAMPLE.org", 80));
    assert!(!below.matches("example.org", 80));
    assert!(!below.matches("anexample.org", 80));
    assert!(!below.matches("a.example.org", 81));
    assert_eq!(below.to_string(), "*.example.org:80:[::1]:");

    let exact = rule("[2001:DB8::0:1]:443::8443");
    assert_eq!(exact.host, HostPattern::Exact("2001:db8::1".to_owned()));
    assert_eq!((exact.to_host.as_str(), exact.to_port), ("", Some(8443)));
    assert!(exact.matches("[2001:db8::1]", 443) && exact.matches("2001:db8::1", 443));
    assert!(!exact.matches("2001:db8::2", 443));

    for given in [
        "",
        "a:80:b",
        "a:80:b:80:c",
        "::1:80:b:80",
        "a:0:b:80",
        "a:65536:b:80",
        "a:x:b:80",
        "*:80:b:80",
        "*.:80:b:80",
        "a b:80:b:80",
        "a:80:*.b:80",
        ".:80:b:80",
        "a:80:[b]:80",
    ] {
        let said = said(&format!("job.name = 'x'\nnetwork.connect_to = ['{given}']"));
        assert!(
            said.len() == 2 && said[0].starts_with("x.toml:2:23: network.connect_to: "),
            "{given}: {said:?}"
        );
    }
}

#[test]
fn sources_extensions_and_tokens() {
    let config = parsed(
        "[train]\npositive = ['https://example.org/cat', 'texts/cats', 'C:/cats']\n\
         [scope]\nreject_files = ['.PDF', 'mp3']\n[network]\nuser_agent = 'Our-Spoor'\n",
    );
    let path = |text: &str| Source::Path(PathBuf::from(text));
    let url = PageUrl::parse("https://example.org/cat").unwrap();
    assert_eq!(
        config.train.positive,
        [Source::Url(url), path("texts/cats"), path("C:/cats")]
    );
    let extensions: Vec<&str> = config
        .scope
        .reject_files
        .iter()
        .map(Extension::as_str)
        .collect();
    assert_eq!(extensions, ["pdf", "mp3"]);
    assert_eq!(config.network.user_agent.as_str(), "Our-Spoor");
    for line in [
        "train.neutral = ['htps://example.org/']",
        "scope.reject_files = ['tar.gz']",
        "scope.reject_files = ['.']",
        "network.user_agent = 'spoor/1.0'",
        "network.user_agent = ''",
        "scope.schemes = ['ftp']",
        "job.folder = \"a\\u0000b\"",
    ] {
        assert_eq!(said(&format!("job.name = 'x'\n{line}")).len(), 2, "{line}");
    }
}

#[test]
fn folders_and_names() {
    let config = parsed("");
    assert_eq!(config.job_folder(), PathBuf::from("jobs/test"));
    assert_eq!(config.model_folder(), PathBuf::from("models/test"));
    let config = parsed("folder = '/data'\n[model]\nname = 'other'\nfolder = 'm'");
    assert_eq!(config.job_folder(), PathBuf::from("/data/test"));
    assert_eq!(config.model_folder(), PathBuf::from("m/other"));
    assert_eq!(config.model_name().as_str(), "other");
}

#[test]
fn values_that_may_be_found_out() {
    let config = parsed("[strategy]\nanchor_threshold = 250\n[buckets]\nboundaries = \"auto\"");
    assert_eq!(config.strategy.anchor_threshold, Auto::Set(250.0));
    assert_eq!(config.strategy.anchor_threshold.or(9.0), 250.0);
    let config = parsed("[strategy]\nanchor_threshold = \"auto\"");
    assert_eq!(config.strategy.anchor_threshold.or(9.0), 9.0);
    assert!(config.to_toml().contains("\nanchor_threshold = \"auto\"\n"));
    for (given, says) in [
        ("strategy.anchor_threshold = 0", "above 0"),
        (
            "strategy.anchor_threshold = \"much\"",
            "is not a number or \"auto\"",
        ),
        ("strategy.anchor_threshold = true", "is not a number"),
        (
            "buckets.boundaries = \"model\"",
            "\"model\" is not a choice of boundaries",
        ),
        ("buckets.boundaries = \"atuo\"", "did you mean \"auto\"?"),
    ] {
        let said = said(&format!("job.name = 'x'\n{given}"));
        assert!(said[0].contains(says), "{said:?}");
    }
}
