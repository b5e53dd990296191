//! Which requests hosts get, when, and in whose name, as seen by the hosts.

use std::process::Command;
use std::time::Duration;

use spoor_lab::{Behaviour, Fault, Lab};

use crate::support::job::CONTACT;
use crate::support::texts::{image, link, page, plain, some, topical, tree};
use crate::support::wire::{GRAIN, too_close};
use crate::support::{Job, JobText, Live, Ran, Wire};

fn seeds<'a>(seeds: &'a [&'a str]) -> JobText<'a> {
    JobText {
        seeds,
        ..JobText::default()
    }
}

fn asked(wire: &Wire) -> Vec<String> {
    wire.requests().iter().map(|r| r.address()).collect()
}

fn busy(code: u16, seconds: &str) -> Fault {
    Fault::Status {
        code,
        retry_after: Some(seconds.to_owned()),
    }
}

#[test]
fn a_crawl_delay_is_honoured_from_the_first_page_on() {
    let lab = Lab::from_memory(tree(&[
        (
            "a.test/robots.txt",
            "User-agent: spoor\nCrawl-delay: 0.25\n".into(),
        ),
        ("a.test/", plain(&["/1", "/2"], &["/a.png"])),
        ("a.test/1", plain(&[], &[])),
        ("a.test/2", plain(&[], &[])),
    ]));
    let wire = Wire::serve(lab);
    Job::new(&wire, &seeds(&["http://a.test/"])).run();
    let requests = wire.requests();
    assert_eq!(requests.len(), 5, "{:?}", asked(&wire));
    let delay = |_: &str| Duration::from_millis(250);
    assert_eq!(too_close(&requests, delay), Vec::<String>::new());
}

#[test]
fn a_slow_host_is_asked_less_often() {
    let pages: Vec<String> = (0..4)
        .map(|i| plain(&[&format!("/{}", i + 1)], &[]))
        .collect();
    let names = ["a.test/", "a.test/1", "a.test/2", "a.test/3"];
    let pages: Vec<(&str, String)> = names.into_iter().zip(pages).collect();
    let latency = Duration::from_millis(40);
    let lab =
        Lab::from_memory(tree(&pages)).with_behaviour(Behaviour::of("a.test").latency(latency));
    let wire = Wire::serve(lab);
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 5.0",
        ..seeds(&["http://a.test/"])
    };
    Job::new(&wire, &text).run();
    let requests = wire.requests();
    assert_eq!(requests.len(), 6, "{:?}", asked(&wire));
    // Five times the duration of each answer, which was at least the latency.
    assert_eq!(too_close(&requests, |_| 5 * latency), Vec::<String>::new());
}

#[test]
fn only_the_rules_are_fetched_while_they_are_unavailable() {
    let fault = |code| Fault::Status {
        code,
        retry_after: None,
    };
    let hosts = [
        "five.test",
        "drop.test",
        "loop.test",
        "open.test",
        "gone.test",
    ];
    let pages: Vec<(String, String)> = hosts
        .iter()
        .map(|host| (format!("{host}/"), plain(&[], &["/a.png"])))
        .collect();
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let mut tree = tree(&pages);
    tree.redirect("http://loop.test/robots.txt", "/other/robots.txt");
    tree.redirect("http://loop.test/other/robots.txt", "/robots.txt");
    let lab = Lab::from_memory(tree)
        .with_behaviour(
            Behaviour::of("five.test")
                .under("/robots.txt")
                .fault(fault(500)),
        )
        .with_behaviour(
            Behaviour::of("drop.test")
                .under("/robots.txt")
                .fault(Fault::Drop),
        )
        .with_behaviour(
            Behaviour::of("open.test")
                .under("/robots.txt")
                .fault(fault(403)),
        )
        .with_behaviour(
            Behaviour::of("gone.test")
                .under("/robots.txt")
                .fault(fault(410)),
        );
    let wire = Wire::serve(lab);
    let urls: Vec<String> = hosts.iter().map(|h| format!("http://{h}/")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 2\nback_off = \"5ms\"",
        ..seeds(&urls)
    };
    let out = Job::new(&wire, &text).run();
    assert!(out.contains("parked    3 hosts"), "{out}");
    let asked = asked(&wire);
    let count = |address: &str| asked.iter().filter(|a| *a == address).count();
    for host in ["five.test", "drop.test"] {
        assert_eq!(count(&format!("{host}/robots.txt")), 3, "{asked:?}");
    }
    // Three attempts, each at the address itself and the five redirects of RFC 9309: 18 requests,
    // half of them at each address of the loop.
    assert_eq!(count("loop.test/robots.txt"), 9, "{asked:?}");
    assert_eq!(count("loop.test/other/robots.txt"), 9, "{asked:?}");
    for host in ["five.test", "drop.test", "loop.test"] {
        let other = asked
            .iter()
            .find(|a| a.starts_with(host) && !a.ends_with("/robots.txt"));
        assert_eq!(other, None);
    }
    // A 4xx status means that there are no rules.
    for host in ["open.test", "gone.test"] {
        assert_eq!(count(&format!("{host}/robots.txt")), 1, "{asked:?}");
        assert_eq!(count(&format!("{host}/")), 1, "{asked:?}");
        assert_eq!(count(&format!("{host}/a.png")), 1, "{asked:?}");
    }
}

#[test]
fn paths_that_robots_txt_forbids_are_never_fetched() {
    let rules = "User-agent: *\nAllow: /\n\n\
                 User-agent: spoor\nDisallow: /no\nAllow: /no/but\nDisallow: /*.cgi$\nDisallow: /img/\n";
    let links = [
        "/no/1",
        "/no/but-this",
        "/x.cgi",
        "/x.cgi?q",
        "/yes",
        "/moved",
    ];
    let mut tree = tree(&[
        ("a.test/robots.txt", rules.into()),
        ("a.test/", plain(&links, &["/img/a.png", "/pic/b.png"])),
        ("a.test/yes", plain(&["http://b.test/"], &[])),
        ("a.test/no/but-this", plain(&[], &[])),
        ("b.test/robots.txt", "User-agent: *\nDisallow: /\n".into()),
    ]);
    tree.redirect("http://a.test/moved", "http://a.test/no/2");
    let wire = Wire::serve(Lab::from_memory(tree));
    Job::new(&wire, &seeds(&["http://a.test/"])).run();
    let mut asked = asked(&wire);
    asked.sort();
    let expected = [
        "a.test/",
        "a.test/moved",
        "a.test/no/but-this",
        "a.test/pic/b.png",
        "a.test/robots.txt",
        "a.test/x.cgi?q",
        "a.test/yes",
        "b.test/robots.txt",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn retry_after_holds_for_the_whole_host() {
    let pages = [
        ("a.test/", plain(&["/1", "/2", "/3"], &[])),
        ("a.test/1", plain(&[], &[])),
        ("a.test/2", plain(&[], &[])),
        ("a.test/3", plain(&[], &[])),
        ("b.test/", plain(&["/1"], &[])),
        ("b.test/1", plain(&[], &[])),
    ];
    let lab = Lab::from_memory(tree(&pages))
        .with_behaviour(
            Behaviour::of("a.test")
                .under("/1")
                .fault(busy(503, "1"))
                .times(1),
        )
        .with_behaviour(
            Behaviour::of("b.test")
                .under("/1")
                .fault(busy(429, "1"))
                .times(1),
        );
    let wire = Wire::serve(lab);
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 1\nback_off = \"1ms\"",
        ..seeds(&["http://a.test/", "http://b.test/"])
    };
    let job = Job::new(&wire, &text);
    job.run();
    let requests = wire.requests();
    let mut pauses = 0;
    for (at, busy) in requests.iter().enumerate() {
        if !matches!(busy.status, Some(503 | 429)) {
            continue;
        }
        let next = requests[at + 1..]
            .iter()
            .find(|r| r.host == busy.host)
            .unwrap();
        let waited = next.began - busy.ended.unwrap();
        assert!(
            waited + GRAIN >= Duration::from_secs(1),
            "{waited:?} at {}",
            busy.host
        );
        pauses += 1;
    }
    assert_eq!(pauses, 2);
    let done = job
        .endings()
        .iter()
        .filter(|e| e.starts_with("page done"))
        .count();
    assert_eq!(done, pages.len());
}

#[test]
fn retry_after_is_obeyed_whatever_the_answer() {
    let codes = [
        301, 304, 305, 400, 403, 404, 408, 410, 421, 425, 451, 500, 504,
    ];
    let hosts: Vec<String> = codes.iter().map(|code| format!("c{code}.test")).collect();
    let mut pages = Vec::new();
    for host in &hosts {
        pages.push((format!("{host}/"), plain(&["/1", "/2"], &[])));
        pages.push((format!("{host}/1"), plain(&[], &[])));
        pages.push((format!("{host}/2"), plain(&[], &[])));
    }
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let lab = codes
        .iter()
        .zip(&hosts)
        .fold(Lab::from_memory(tree(&pages)), |lab, (code, host)| {
            let fault = Behaviour::of(host).under("/1").fault(busy(*code, "1"));
            lab.with_behaviour(fault.times(1))
        });
    let wire = Wire::serve(lab);
    let urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}/")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 1\nback_off = \"1ms\"",
        ..seeds(&urls)
    };
    Job::new(&wire, &text).run();
    let requests = wire.requests();
    for (code, host) in codes.iter().zip(&hosts) {
        let asked: Vec<_> = requests.iter().filter(|r| r.host == *host).collect();
        let at = asked.iter().position(|r| r.path == "/1").unwrap();
        assert_eq!(asked[at].status, Some(*code));
        let next = asked
            .get(at + 1)
            .unwrap_or_else(|| panic!("{code} ends all"));
        let waited = next.began - asked[at].ended.unwrap();
        assert!(
            waited + GRAIN >= Duration::from_secs(1),
            "{code}: {waited:?}"
        );
    }
}

#[test]
fn a_wait_of_nothing_does_not_cancel_our_own_pauses() {
    let lab = Lab::from_memory(tree(&[("a.test/", plain(&[], &[]))]))
        .with_behaviour(Behaviour::of("a.test").under("/robots.txt").times(1))
        .with_behaviour(Behaviour::of("a.test").fault(busy(503, "0")));
    let wire = Wire::serve(lab);
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 3\nback_off = \"100ms\"",
        ..seeds(&["http://a.test/"])
    };
    Job::new(&wire, &text).run();
    let asked = wire.requests().split_off(1);
    let pauses = asked.windows(2).map(|w| w[1].began - w[0].ended.unwrap());
    let pauses: Vec<Duration> = pauses.collect();
    assert_eq!(pauses.len(), 3);
    for (pause, due) in pauses.iter().zip([100, 200, 400]) {
        assert!(*pause + GRAIN >= Duration::from_millis(due), "{pauses:?}");
    }
}

#[test]
fn a_crawl_delay_that_is_odd_or_huge_counts() {
    let huge = [
        "1e30",
        "inf",
        "9999999999999999999999999999999999999999",
        "700 s",
    ];
    let odd = ["0.25s", "0,25", "0.25 seconds, please"];
    let host = |kind: &str, n: usize| format!("{kind}{n}.test");
    let mut pages = Vec::new();
    let mut urls = Vec::new();
    for (kind, delays) in [("huge", &huge[..]), ("odd", &odd[..])] {
        for (n, delay) in delays.iter().enumerate() {
            let host = host(kind, n);
            let rules = format!("User-agent: *\nCrawl-delay: {delay}\n");
            pages.push((format!("{host}/robots.txt"), rules));
            pages.push((format!("{host}/"), plain(&["/1"], &[])));
            pages.push((format!("{host}/1"), plain(&[], &[])));
            urls.push(format!("http://{host}/"));
        }
    }
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let out = Job::new(&wire, &seeds(&urls)).run();
    assert!(out.contains("parked    4 hosts"), "{out}");
    let requests = wire.requests();
    for (n, delay) in huge.iter().enumerate() {
        let of_host = requests.iter().filter(|r| r.host == host("huge", n));
        let paths: Vec<&str> = of_host.map(|r| r.path.as_str()).collect();
        assert_eq!(paths, ["/robots.txt"], "{delay}");
    }
    assert_eq!(requests.len(), huge.len() + 3 * odd.len());
    let delay = |_: &str| Duration::from_millis(250);
    assert_eq!(too_close(&requests, delay), Vec::<String>::new());
}

#[test]
fn a_host_that_wants_a_long_pause_is_not_waited_for() {
    let lab = Lab::from_memory(tree(&[
        ("a.test/", plain(&["/1"], &[])),
        ("b.test/", plain(&[], &[])),
    ]))
    .with_behaviour(Behaviour::of("a.test").under("/1").fault(busy(503, "3600")));
    let wire = Wire::serve(lab);
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nback_off = \"1ms\"\nmax_back_off = \"1m\"",
        ..seeds(&["http://a.test/", "http://b.test/"])
    };
    let job = Job::new(&wire, &text);
    let out = job.run();
    assert!(out.contains("parked    1 host that"), "{out}");
    let requests = wire.requests().len();
    assert_eq!(requests, 5, "{:?}", asked(&wire));
    // The pause is not forgotten either.
    let out = job.run();
    assert!(out.contains("parked    1 host that"), "{out}");
    assert_eq!(wire.requests().len(), requests);
}

#[test]
fn retry_after_outlives_a_kill() {
    let chain: Vec<String> = (0..400).map(|i| format!("/{i}")).collect();
    let mut pages = vec![("a.test/".to_owned(), plain(&[], &[]))];
    pages.extend(
        chain
            .windows(2)
            .map(|w| (format!("b.test{}", w[0]), plain(&[&w[1]], &[]))),
    );
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let lab = Lab::from_memory(tree(&pages))
        .with_behaviour(Behaviour::of("a.test").under("/robots.txt").times(1))
        .with_behaviour(Behaviour::of("a.test").fault(busy(503, "2")).times(1));
    let wire = Wire::serve(lab);
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 1\nback_off = \"1ms\"",
        ..seeds(&["http://a.test/", "http://b.test/0"])
    };
    let job = Job::new(&wire, &text);
    let mut process = Live::start(&mut job.crawl());
    // Once twenty more requests were made, the crawl has recorded the answer.
    let noted = |n: &crate::support::wire::Notes| {
        let busy = n.requests.iter().position(|r| r.status == Some(503));
        busy.is_some_and(|at| n.requests.len() > at + 20)
    };
    wire.wait(noted, || false);
    assert!(process.kill());
    wire.settle();
    let killed = wire.requests().len();
    job.run();
    let requests = wire.requests();
    let busy = requests.iter().find(|r| r.status == Some(503)).unwrap();
    let next = requests[killed..]
        .iter()
        .find(|r| r.host == "a.test")
        .unwrap();
    let waited = next.began - busy.ended.unwrap();
    assert!(waited + GRAIN >= Duration::from_secs(2), "{waited:?}");
    assert_eq!(next.path, "/");
    assert!(
        job.endings()
            .contains(&"page done http://a.test/".to_owned())
    );
}

#[test]
fn every_request_names_the_crawler_and_its_operator() {
    let lab = Lab::from_memory(tree(&[("a.test/", plain(&["/1"], &["/a.png"]))]));
    let wire = Wire::serve(lab);
    Job::new(&wire, &seeds(&["http://a.test/"])).run();
    let requests = wire.requests();
    assert_eq!(requests.len(), 4);
    let agent = format!("spoor/{} (+{CONTACT})", env!("CARGO_PKG_VERSION"));
    assert!(requests.iter().all(|r| r.agent == agent), "{requests:#?}");
}

#[test]
fn private_addresses_are_not_even_connected_to() {
    let wire = Wire::serve(Lab::from_memory(tree(&[("a.test/", plain(&[], &[]))])));
    let literal = format!("http://{}/", wire.addr);
    let named = format!("http://localhost:{}/", wire.addr.port());
    let text = JobText {
        seeds: &[&literal, &named],
        network: "",
        politeness: "min_delay = 0\nretries = 0\nback_off = \"1ms\"",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let out = job.run();
    assert!(out.contains("pages     0 done of 0 fetches"), "{out}");
    assert_eq!(wire.notes().accepted, 0);
    let mut reasons: Vec<String> = job.log().iter().map(|r| r["reason"].to_string()).collect();
    reasons.sort();
    // A name that means this machine is not even looked up.
    let expected = ["dns", "private_address"];
    assert_eq!(reasons, expected.map(|r| format!("\"{r}\"")));

    // The same with permission; a rule in `connect_to` counts as permission.
    let text = JobText {
        seeds: &["http://a.test/", &literal, &named],
        network: "allow_private = true",
        ..text
    };
    Job::new(&wire, &text).run();
    assert!(asked(&wire).contains(&"a.test/".to_owned()));
    assert!(asked(&wire).contains(&format!("{}/", wire.addr)));
}

#[test]
fn a_redirect_is_judged_like_a_link() {
    let mut tree = tree(&[
        (
            "a.test/",
            plain(&["/in", "/out", "/file", "/round", "/far"], &["/old.png"]),
        ),
        ("a.test/new", plain(&[], &[])),
    ]);
    for (from, to) in [
        ("/in", "/new"),
        ("/out", "http://out.test/"),
        ("/file", "/archive.zip"),
        ("/round", "/round"),
        ("/far", "http://b.test/"),
        ("/old.png", "http://out.test/new.png"),
    ] {
        tree.redirect(&format!("http://a.test{from}"), to);
    }
    let wire = Wire::serve(Lab::from_memory(tree));
    let text = JobText {
        rest: "[scope]\naccept = [\"test,a\"]\nreject = [\"test,out\"]",
        ..seeds(&["http://a.test/"])
    };
    let job = Job::new(&wire, &text);
    job.run();
    let mut asked = asked(&wire);
    asked.sort();
    let expected = [
        "",
        "far",
        "file",
        "in",
        "new",
        "old.png",
        "out",
        "robots.txt",
        "round",
    ];
    assert_eq!(asked, expected.map(|p| format!("a.test/{p}")));
    assert!(
        job.endings()
            .contains(&"page done http://a.test/new".to_owned())
    );
}

#[test]
fn redirects_in_a_row_have_an_end() {
    let mut tree = tree(&[
        ("a.test/", plain(&["/0", "/b0"], &[])),
        ("a.test/b5", plain(&[], &[])),
    ]);
    for i in 0..9 {
        tree.redirect(&format!("http://a.test/{i}"), &format!("/{}", i + 1));
    }
    for i in 0..5 {
        tree.redirect(&format!("http://a.test/b{i}"), &format!("/b{}", i + 1));
    }
    let wire = Wire::serve(Lab::from_memory(tree));
    let job = Job::new(&wire, &seeds(&["http://a.test/"]));
    job.run();
    let endings = job.endings();
    assert!(
        endings.contains(&"page dropped:redirect_limit http://a.test/5".to_owned()),
        "{endings:#?}"
    );
    assert!(
        endings.contains(&"page done http://a.test/b5".to_owned()),
        "{endings:#?}"
    );
    assert!(!asked(&wire).contains(&"a.test/6".to_owned()));
}

#[test]
fn nofollow_and_noindex_are_obeyed() {
    let meta = |content: &str| format!("<meta name=\"robots\" content=\"{content}\">");
    let anchor = some(topical(), 5, 1);
    let own = |word: &str| {
        format!("The {word} lighthouse {word} stands on its {word} rock above the {word} sea.")
    };
    let body = |word: &str, head: &str, target: &str| {
        let src = format!("/{word}.png");
        let rest = format!(
            "<p>{}</p>{}<p><a rel=\"ugc nofollow\" href=\"/rel-{word}\">{anchor}</a></p>",
            own(word),
            link(target, &anchor)
        );
        page(word, head, &[rest, image(&src, &own(word))])
    };
    let mut tree = tree(&[
        ("a.test/", body("plain", "", "/noindex")),
        (
            "a.test/noindex",
            body("noindexed", &meta("noindex"), "/nofollow"),
        ),
        (
            "a.test/nofollow",
            body("nofollowed", &meta("nofollow"), "/never"),
        ),
        ("b.test/", body("trained", &meta("noai"), "/images")),
        (
            "b.test/images",
            body("pictured", &meta("noimageai"), "/end"),
        ),
        ("b.test/end", body("ended", "", "/noindex")),
    ]);
    for word in ["plain", "noindexed", "nofollowed"] {
        tree.image(&format!("http://a.test/{word}.png"), 120, 120);
    }
    for word in ["trained", "pictured", "ended"] {
        tree.image(&format!("http://b.test/{word}.png"), 120, 120);
    }
    let wire = Wire::serve(Lab::from_memory(tree));
    let job = Job::new(&wire, &seeds(&["http://a.test/", "http://b.test/"]));
    job.run();
    let mut asked = asked(&wire);
    asked.sort();
    let expected = [
        "a.test/",
        "a.test/nofollow",
        "a.test/nofollowed.png",
        "a.test/noindex",
        "a.test/plain.png",
        "a.test/robots.txt",
        "b.test/",
        "b.test/end",
        "b.test/ended.png",
        "b.test/images",
        "b.test/noindex",
        "b.test/robots.txt",
    ];
    assert_eq!(asked, expected);
    let text = job.sentences().join("\n");
    for (word, kept) in [
        ("plain", true),
        ("noindexed", false),
        ("nofollowed", true),
        ("trained", false),
        ("pictured", true),
        ("ended", true),
    ] {
        assert_eq!(
            text.contains(&own(word).to_lowercase().replace('.', "")),
            kept,
            "{word}"
        );
    }
    let mut images: Vec<String> = job.image_rows().iter().map(|r| r["url"].clone()).collect();
    images.sort();
    let kept = ["a.test/nofollowed", "a.test/plain", "b.test/ended"];
    assert_eq!(images, kept.map(|i| format!("http://{i}.png")));
}

#[test]
fn hosts_on_one_address_share_its_clock() {
    let pages = || {
        tree(&[
            ("127.0.0.1/", plain(&["/1", "/2"], &["/a.png"])),
            ("127.0.0.1/1", plain(&[], &[])),
            ("127.0.0.1/2", plain(&[], &[])),
        ])
    };
    // Three hosts by their ports, on one IP address.
    let wires: Vec<Wire> = (0..3)
        .map(|_| Wire::serve(Lab::from_memory(pages())))
        .collect();
    let urls: Vec<String> = wires
        .iter()
        .map(|w| format!("http://{}/", w.addr))
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let crawl = |address_delay: &str| {
        let politeness =
            format!("min_delay = 0\ndelay_factor = 0\naddress_delay = {address_delay}");
        let text = JobText {
            politeness: &politeness,
            ..seeds(&urls)
        };
        let before: Vec<usize> = wires.iter().map(|w| w.requests().len()).collect();
        let job = Job::new(&wires[0], &text);
        job.run();
        let asked = wires.iter().zip(before);
        let began = asked.flat_map(|(wire, before)| wire.requests().split_off(before));
        let mut began: Vec<_> = began.map(|seen| seen.began).collect();
        began.sort();
        assert_eq!(began.len(), 15, "rules, three pages and an image of each");
        began
    };
    let pause = Duration::from_millis(100);
    // Each request may be seen a little late, but the delays do not add up.
    let apart = crawl("\"100ms\"");
    assert!(apart[14] - apart[0] >= 10 * pause, "{apart:?}");
    // Without `address_delay` the requests are concurrent.
    let together = crawl("0");
    assert!(together.windows(2).any(|w| w[1] - w[0] < pause / 4));
}

/// A crawl of hosts by their names, which a separate hosts file maps to this machine: a clock of
/// `[politeness]` is for addresses, not for `connect_to`.
pub fn crawl_of_neighbours(job: &Job, names: &[String]) -> Command {
    let hosts = job.file().with_file_name("hosts");
    let lines: String = names
        .iter()
        .map(|name| format!("127.0.0.1 {name}\n"))
        .collect();
    std::fs::write(&hosts, lines).unwrap();
    let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(&hosts).arg(env!("CARGO_BIN_EXE_spoor"));
    command.arg("crawl").arg(job.file());
    command
}

/// Whether this machine lets a test have its own hosts file.
pub fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    let may = tried.is_ok_and(|out| out.status.success());
    if !may {
        println!("SKIPPED: this machine does not let the test have a hosts file of its own");
    }
    may
}

/// Eight hosts in eight or fewer of 16 cells, on one IP address.
#[test]
fn hosts_of_different_cells_on_one_address_share_its_clock() {
    if !may_mount() {
        return;
    }
    let names: Vec<String> = (0..8).map(|n| format!("host{n}.example")).collect();
    let page = |host: &String| (format!("{host}/"), plain(&[], &[]));
    let pages: Vec<(String, String)> = names.iter().map(page).collect();
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let port = wire.addr.port();
    let urls: Vec<String> = names
        .iter()
        .map(|n| format!("http://{n}:{port}/"))
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\naddress_delay = \"50ms\"",
        rest: "[frontier]\nstore = \"fjall\"\ncells = 16\n",
        ..seeds(&urls)
    };
    let job = Job::new(&wire, &text);
    Ran::of(&mut crawl_of_neighbours(&job, &names)).good();
    let mut began: Vec<_> = wire.requests().iter().map(|seen| seen.began).collect();
    began.sort();
    assert_eq!(began.len(), 16, "rules and a page of each");
    // Each request may be seen a little late, but the delays do not add up.
    let all = began[15] - began[0];
    assert!(all >= 12 * Duration::from_millis(50), "{all:?}");
}

#[test]
fn two_hosts_that_ask_for_a_year_silence_no_neighbour() {
    if !may_mount() {
        return;
    }
    let name = |kind: &str, n: usize| format!("{kind}{n}.example");
    let bad: Vec<String> = (0..2).map(|n| name("bad", n)).collect();
    let good: Vec<String> = (0..33).map(|n| name("good", n)).collect();
    let pages: Vec<(String, String)> = bad
        .iter()
        .chain(&good)
        .map(|host| (format!("{host}/"), plain(&[], &[])))
        .collect();
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    // One fails from its first answer on, the other one after one good answer.
    let lab = Lab::from_memory(tree(&pages))
        .with_behaviour(Behaviour::of(&bad[0]).fault(busy(503, "31536000")))
        .with_behaviour(Behaviour::of(&bad[1]).under("/robots.txt").times(1))
        .with_behaviour(Behaviour::of(&bad[1]).fault(busy(503, "31536000")));
    let wire = Wire::serve(lab);
    let port = wire.addr.port();
    // Nothing listens at the port of these hosts, which never answered.
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let dead: Vec<String> = (0..6).map(|n| name("dead", n)).collect();
    let at = |host: &String, port: u16| format!("http://{host}:{port}/");
    let urls: Vec<String> = (bad.iter().map(|host| at(host, port)))
        .chain(dead.iter().map(|host| at(host, closed)))
        .chain(good.iter().map(|host| at(host, port)))
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let text = JobText {
        politeness: "min_delay = 0\ndelay_factor = 0\naddress_delay = \"5ms\"\nretries = 1\n\
                     back_off = \"10ms\"\nmax_back_off = \"1h\"",
        ..seeds(&urls)
    };
    let job = Job::new(&wire, &text);
    let names = [bad, dead, good.clone()].concat();
    Ran::of(&mut crawl_of_neighbours(&job, &names)).good();
    let requests = wire.requests();
    for host in good {
        let of_host = |path: &str| {
            let seen = requests.iter();
            let host = format!("{host}:{port}");
            seen.filter(|r| r.host == host && r.path == path).count()
        };
        assert_eq!((of_host("/robots.txt"), of_host("/")), (1, 1), "{host}");
    }
}
