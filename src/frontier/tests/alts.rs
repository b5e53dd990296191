//! Alt texts that a host repeats, observed in the edits for the outputs.

use super::*;
use crate::page::{AltKind, TextScore};

const UNKNOWN: f64 = 40_000.0;

/// An image with an alt text of perplexity 4.
fn with_alt(address: &str, page: &str, alt: &str) -> NewImage {
    let mut image = image(address, page, 10.0);
    image.context.texts.alt = Some(alt.to_owned());
    image.context.texts.alt_kind = Some(AltKind::Written);
    image.context.scores.alt = Some(TextScore {
        perplexity: 4.0,
        keyword: 0.0,
        weighted: 4.0,
    });
    image
}

struct Site {
    f: Frontier,
    now: u64,
    /// By file, the pages on which an alt text turned out to be boilerplate.
    marked: Vec<(String, String)>,
}

impl Site {
    fn new(folder: &Path) -> Self {
        Self {
            f: open(folder, 0),
            now: 0,
            marked: Vec::new(),
        }
    }

    /// Fetches page `n` of a host with these images, but none of the images.
    fn page(&mut self, host: &str, n: usize, images: &[(&str, &str)]) {
        let address = format!("http://{host}/{n}");
        self.f.add_seeds(&[url(&address)], self.now).unwrap();
        let images = images.iter();
        let images = images.map(|(image, alt)| with_alt(image, &address, alt));
        let effects = Effects {
            images: images.collect(),
            unknown: UNKNOWN,
            ..Effects::default()
        };
        self.fetch(TaskKind::Page, effects);
    }

    fn fetch(&mut self, kind: TaskKind, effects: Effects) {
        // Other due tasks are put back.
        let mut others = Vec::new();
        let task = loop {
            match lease(&mut self.f, &mut self.now).unwrap() {
                task if task.kind == kind => break task,
                other => others.push(other),
            }
        };
        for other in others {
            self.f.abandon(&other, self.now).unwrap();
        }
        let stamp = self.f.stamp();
        let note = Some(task.url.as_str().to_owned());
        let now = self.now;
        let written = Written {
            stamp,
            note,
            ..Written::default()
        };
        let finished = self
            .f
            .finish(&task, Outcome::Done, effects, SECOND, now, |_| {
                Ok::<_, StoreError>(written)
            });
        let edits = finished.unwrap().edits.into_iter();
        let marked = edits.filter_map(|edit| match edit {
            OutputEdit::MarkBoilerplate { note, page, .. } => {
                Some((note, page.as_str().to_owned()))
            }
            _ => None,
        });
        self.marked.extend(marked);
    }

    /// The stored context of an image that is not fetched yet.
    fn alt_kind(&self, image: &str) -> Vec<(Option<AltKind>, f64)> {
        let contexts = self.f.contexts(&url(image)).unwrap();
        let kinds = contexts.iter().map(|c| {
            let scored = c.scores.alt.is_some();
            assert_eq!(scored, c.texts.alt_kind == Some(AltKind::Written));
            let weighted = c.scores.alt.map_or(UNKNOWN, |score| score.weighted);
            (c.texts.alt_kind, weighted)
        });
        kinds.collect()
    }
}

#[test]
fn what_a_host_repeats_is_marked_also_where_it_was_met_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::new(folder.path());
    site.page("a.org", 1, &[("http://i.org/1", "Photo of the day")]);
    site.fetch(TaskKind::Image, Effects::default());
    for n in 2..=4 {
        let image = format!("http://i.org/{n}");
        let other = format!("http://i.org/other{n}");
        let images = [
            (&*image, "PHOTO of the day"),
            (&*other, "a cat that sleeps"),
        ];
        site.page("a.org", n, &images[..if n == 2 { 2 } else { 1 }]);
    }
    assert_eq!(
        site.alt_kind("http://i.org/4"),
        [(Some(AltKind::Written), 4.0)]
    );
    assert_eq!(site.marked, []);
    site.page("a.org", 5, &[("http://i.org/5", "photo of the day")]);
    for n in 2..=5 {
        let image = format!("http://i.org/{n}");
        let expected = [(Some(AltKind::Boilerplate), UNKNOWN)];
        assert_eq!(site.alt_kind(&image), expected, "{n}");
    }
    let first = ("http://i.org/1".to_owned(), "http://a.org/1".to_owned());
    assert_eq!(site.marked, [first]);
    let other = site.alt_kind("http://i.org/other2");
    assert_eq!(other, [(Some(AltKind::Written), 4.0)]);
    // Later occurrences are marked at once, but not on other hosts.
    site.page("a.org", 6, &[("http://i.org/6", "photo of the day")]);
    site.page("b.org", 7, &[("http://i.org/7", "photo of the day")]);
    assert_eq!(
        site.alt_kind("http://i.org/6"),
        [(Some(AltKind::Boilerplate), UNKNOWN)]
    );
    assert_eq!(
        site.alt_kind("http://i.org/7"),
        [(Some(AltKind::Written), 4.0)]
    );
    check(&site.f);
}

#[test]
fn what_is_rare_on_its_host_or_belongs_to_one_image_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::new(folder.path());
    for n in 0..40 {
        // The logo is one image, and one page in ten shows its own cat; a
        // gallery has many images of one name on one page.
        let cat = format!("http://i.org/cat{n}");
        let gallery: Vec<String> = (0..10).map(|i| format!("http://i.org/g{i}")).collect();
        let mut images = vec![("http://i.org/logo", "Museum of Cats")];
        if n > 20 && n % 2 == 0 {
            images.push((&cat, "a cat"));
        }
        if n == 3 {
            images.extend(gallery.iter().map(|image| (&**image, "a gallery")));
        }
        site.page("a.org", n, &images);
    }
    let logo = site.alt_kind("http://i.org/logo");
    assert_eq!(logo.len(), 40);
    assert!(logo.iter().all(|(kind, _)| *kind == Some(AltKind::Written)));
    assert_eq!(
        site.alt_kind("http://i.org/g7"),
        [(Some(AltKind::Written), 4.0)]
    );
    assert_eq!(
        site.alt_kind("http://i.org/cat38"),
        [(Some(AltKind::Written), 4.0)]
    );
    check(&site.f);
}

#[test]
fn known_alts_survive_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::new(&folder.path().join("a"));
    for n in 1..=4 {
        let image = format!("http://i.org/{n}");
        site.page("a.org", n, &[(&image, "Photo of the day")]);
    }
    let (lines, found) = exported(site.f.ledger.store());
    assert!(found.is_whole());
    drop(site.f);
    drop(imported(&lines, &folder.path().join("b")));
    site.f = open(&folder.path().join("b"), site.now);
    site.page("a.org", 5, &[("http://i.org/5", "photo of the day")]);
    assert_eq!(
        site.alt_kind("http://i.org/2"),
        [(Some(AltKind::Boilerplate), UNKNOWN)]
    );
}
