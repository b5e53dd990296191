//! RFC 9309 as seen by hosts: which requests follow each answer for a robots.txt.

use std::time::Duration;

use spoor_lab::{Behaviour, Fault, Lab};

use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Wire};

/// A host's answer for its robots.txt.
enum Says {
    Body(Vec<u8>),
    Status(u16, Option<&'static str>),
    Nothing,
    Late,
    /// This many redirects, and then rules that forbid `/no`.
    Far(usize),
    /// The rules of another host.
    Elsewhere,
}

fn body(text: &str) -> Says {
    Says::Body(text.as_bytes().to_vec())
}

#[test]
fn each_answer_for_a_robots_txt_means_what_rfc_9309_says() {
    let forbids_no = "User-agent: *\nDisallow: /no\n";
    let long = |rules: &str| {
        let fill = "# nothing\n".repeat(51_200 - rules.len() / 10);
        format!("{rules}{}{forbids_no}", &fill[..512_000 - rules.len()])
    };
    // The answer, and whether `/` and `/no` are then fetched.
    let cases: Vec<(&str, Says, (bool, bool))> = vec![
        ("rules", body(forbids_no), (true, false)),
        (
            "mac",
            body(&format!("\u{feff}{}", forbids_no.replace('\n', "\r"))),
            (true, false),
        ),
        (
            "broken",
            Says::Body([&b"\xff\xfe\n"[..], forbids_no.as_bytes()].concat()),
            (true, false),
        ),
        ("typo", body("Useragent: *\nDissallow /no\n"), (true, false)),
        ("page", body(&plain(&[], &[])), (true, true)),
        ("empty", body(""), (true, true)),
        ("beyond", body(&long("User-agent: *\n")), (true, true)),
        ("within", body(&long(forbids_no)), (true, false)),
        ("far", Says::Far(5), (true, false)),
        ("elsewhere", Says::Elsewhere, (true, false)),
        ("unauthorised", Says::Status(401, None), (true, true)),
        ("forbidden", Says::Status(403, None), (true, true)),
        ("missing", Says::Status(404, None), (true, true)),
        ("gone", Says::Status(410, None), (true, true)),
        ("legal", Says::Status(451, None), (true, true)),
        ("too-far", Says::Far(6), (false, false)),
        ("busy", Says::Status(429, None), (false, false)),
        ("later", Says::Status(503, Some("3600")), (false, false)),
        ("failed", Says::Status(500, None), (false, false)),
        ("gateway", Says::Status(504, None), (false, false)),
        ("nowhere", Says::Status(302, None), (false, false)),
        ("unasked", Says::Status(304, None), (false, false)),
        ("odd", Says::Status(600, None), (false, false)),
        ("cut", Says::Nothing, (false, false)),
        ("slow", Says::Late, (false, false)),
    ];
    let mut web = tree(&[("rules-of.test/other.txt", forbids_no.into())]);
    let mut behaviours = Vec::new();
    for (name, says, _) in &cases {
        let host = format!("{name}.test");
        web.insert_as(&host, "/", "text/html", plain(&[], &[]));
        web.insert_as(&host, "/no", "text/html", plain(&[], &[]));
        let robots = |text: &[u8], path: &str| (host.clone(), path.to_owned(), text.to_vec());
        let mut fault = None;
        let mut file = None;
        match says {
            Says::Body(text) => file = Some(robots(text, "/robots.txt")),
            Says::Status(code, retry_after) => {
                let retry_after = retry_after.map(str::to_owned);
                fault = Some(Fault::Status {
                    code: *code,
                    retry_after,
                });
            }
            Says::Nothing => fault = Some(Fault::Drop),
            Says::Late => {
                let late = Behaviour::of(&host).under("/robots.txt");
                behaviours.push(late.latency(Duration::from_secs(3)));
            }
            Says::Far(hops) => {
                let at = |i: usize| {
                    if i == 0 {
                        "/robots.txt".into()
                    } else {
                        format!("/{i}.txt")
                    }
                };
                for i in 0..*hops {
                    assert!(web.redirect(&format!("http://{host}{}", at(i)), &at(i + 1)));
                }
                file = Some(robots(forbids_no.as_bytes(), &at(*hops)));
            }
            Says::Elsewhere => {
                let to = "http://rules-of.test/other.txt";
                assert!(web.redirect(&format!("http://{host}/robots.txt"), to));
            }
        }
        if let Some((host, path, text)) = file {
            web.insert_as(&host, &path, "text/plain", text);
        }
        let faulty = fault.map(|f| Behaviour::of(&host).under("/robots.txt").fault(f));
        behaviours.extend(faulty);
    }
    let lab = behaviours
        .into_iter()
        .fold(Lab::from_memory(web), Lab::with_behaviour);
    let wire = Wire::serve(lab);
    let seeds: Vec<String> = cases
        .iter()
        .flat_map(|(name, ..)| ["/", "/no"].map(|path| format!("http://{name}.test{path}")))
        .collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        network: "allow_private = true\nread_timeout = \"1s\"",
        ..JobText::default()
    };
    Job::new(&wire, &text).run();
    let asked: Vec<String> = wire.requests().iter().map(|r| r.address()).collect();
    for (name, _, expected) in &cases {
        let has = |path: &str| asked.contains(&format!("{name}.test{path}"));
        assert!(has("/robots.txt"), "{name}");
        assert_eq!((has("/"), has("/no")), *expected, "{name}");
    }
}
