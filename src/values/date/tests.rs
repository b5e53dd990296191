use super::{DateError, DateForm, Language, Order};
use jiff::tz::TimeZone;

fn form(order: Option<&str>, languages: &[&str]) -> DateForm {
    DateForm {
        order: order.and_then(Order::of_name),
        languages: languages
            .iter()
            .filter_map(|code| Language::of_code(code))
            .collect(),
        timezone: None,
    }
}

/// 200 dates in eight languages, formatted by Babel from the CLDR. A numeric date that English
/// writes in two orders is reported with both readings.
#[test]
fn dates_of_eight_languages_are_read_and_ambiguous_ones_reported() {
    let (mut read, mut ambiguous) = (0, 0);
    for line in include_str!("cases.tsv").lines() {
        let mut cells = line.split('\t');
        let [language, text, expected] = std::array::from_fn(|_| cells.next().unwrap());
        let result = form(None, &[language]).read(text);
        if let Some(readings) = expected.strip_prefix("? ") {
            let Err(DateError::Ambiguous {
                readings: found, ..
            }) = result
            else {
                panic!("{line}: {result:?}");
            };
            let mut found = found.clone();
            found.sort();
            assert_eq!(found.join(" "), readings, "{line}");
            ambiguous += 1;
            continue;
        }
        assert_eq!(result.map(|r| r.iso).as_deref(), Ok(expected), "{line}");
        read += 1;
        // Without a language the name of the month is enough.
        if text.chars().any(|c| c.is_alphabetic()) {
            let any = form(None, &[]).read(text);
            assert_eq!(any.map(|r| r.iso).as_deref(), Ok(expected), "{line}");
        }
    }
    assert_eq!((read + ambiguous, ambiguous > 0), (200, true));
}

#[test]
fn dates_as_pages_write_them() {
    for (order, languages, text, expected) in [
        (None, &["de"][..], "14. Februar 2018", "2018-02-14"),
        (None, &["de"], "14. 2. 18", "2018-02-14"),
        (None, &[], "发布于2018年2月14日", "2018-02-14"),
        (None, &[], "14. Februar 2018", "2018-02-14"),
        (None, &[], "14. 2. 18", "2018-02-14"),
        (None, &[], "20120214055058", "2012-02-14T05:50:58Z"),
        (None, &[], "20120214", "2012-02-14"),
        (
            None,
            &[],
            "2018-02-14T08:30:00+01:00",
            "2018-02-14T08:30:00+01:00",
        ),
        (
            None,
            &[],
            "2018-02-14T08:30:00.123Z",
            "2018-02-14T08:30:00Z",
        ),
        (
            None,
            &[],
            "Wed, 14 Feb 2018 08:30:00 GMT",
            "2018-02-14T08:30:00Z",
        ),
        (
            None,
            &[],
            "Veröffentlicht am Mittwoch, 14. Feb. 2018, 18:05 Uhr",
            "2018-02-14T18:05:00",
        ),
        (
            None,
            &[],
            "February 14th, 2018 at 8:30 p.m.",
            "2018-02-14T20:30:00",
        ),
        (None, &[], "1er août 2019", "2019-08-01"),
        (None, &[], "14 de fevereiro de 2018", "2018-02-14"),
        (None, &[], "2018年2月14日", "2018-02-14"),
        (None, &[], "14 февраля 2018 г.", "2018-02-14"),
        (None, &[], "Februar 2018", "2018-02"),
        (None, &[], "14-Feb-18", "2018-02-14"),
        (None, &[], "14/2/2018", "2018-02-14"),
        (Some("mdy"), &[], "03/04/2021", "2021-03-04"),
        (Some("dmy"), &[], "03/04/2021", "2021-04-03"),
        (Some("ymd"), &[], "21/03/04", "2021-03-04"),
        (None, &["fr"], "03/04/2021", "2021-04-03"),
        (None, &["en"], "03/03/2021", "2021-03-03"),
    ] {
        let read = form(order, languages).read(text);
        assert_eq!(read.map(|r| r.iso).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_known_is_not_guessed() {
    for (languages, text, message) in [
        (
            &["en"][..],
            "03/04/2021",
            "\"03/04/2021\" may be 2021-04-03 or 2021-03-04: set `order` or `languages`",
        ),
        (
            &[],
            "1/2/03",
            "\"1/2/03\" may be 2003-02-01 or 2003-01-02: set `order` or `languages`",
        ),
        (
            &[],
            "14. Februar",
            "\"14. Februar\" has no year, and none is guessed",
        ),
        (
            &[],
            "yesterday",
            "\"yesterday\" depends on when it is read, and is not guessed",
        ),
        (
            &[],
            "vor 3 Stunden",
            "\"vor 3 Stunden\" depends on when it is read, and is not guessed",
        ),
        (
            &["de"],
            "31.2.2018",
            "\"31.2.2018\" is not a day of the calendar",
        ),
        (
            &["de"],
            "2/14/2018",
            "\"2/14/2018\" is not a day of the calendar",
        ),
        (
            &[],
            "30 February 2018",
            "\"30 February 2018\" is not a day of the calendar",
        ),
        (
            &["en"],
            "3 May, 10 am – 4 pm",
            "\"3 May, 10 am – 4 pm\" has no year, and none is guessed",
        ),
        (
            &["de"],
            "14. Februar, 18 Uhr",
            "\"14. Februar, 18 Uhr\" has no year, and none is guessed",
        ),
        (
            &["en"],
            "Version 24.8.16",
            "\"Version 24.8.16\" has no date that is understood",
        ),
        (
            &["en"],
            "Ubuntu 22.04.3 LTS",
            "\"Ubuntu 22.04.3 LTS\" has no date that is understood",
        ),
        (
            &[],
            "10.0.0.1",
            "\"10.0.0.1\" has no date that is understood",
        ),
        (&[], "", "\"\" has no date that is understood"),
        (
            &["ja"],
            "14. Februar 2018",
            "\"14. Februar 2018\" has no date that is understood",
        ),
    ] {
        let error = form(None, languages).read(text).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
    }
    let two = form(None, &["de"])
        .read("14.2.2018, geändert 16.2.2018")
        .unwrap();
    assert_eq!((two.iso.as_str(), two.has_more), ("2018-02-14", true));
    let one = form(None, &["de"])
        .read("14.2.2018 (14. Februar 2018)")
        .unwrap();
    assert!(!one.has_more);
}

#[test]
fn a_time_without_a_zone_takes_that_of_the_field() {
    let mut form = form(None, &["de"]);
    form.timezone = TimeZone::get("Europe/Berlin").ok();
    for (text, expected) in [
        ("14.2.2018 08:30", "2018-02-14T08:30:00+01:00"),
        ("14.7.2018 08:30", "2018-07-14T08:30:00+02:00"),
        ("14.7.2018 08:30 UTC", "2018-07-14T08:30:00Z"),
        ("14.7.2018", "2018-07-14"),
    ] {
        assert_eq!(form.read(text).unwrap().iso, expected, "{text}");
    }
}
