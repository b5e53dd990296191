//! A model is grown from a crawl of the demo's web, and then steers a crawl.

use std::net::SocketAddr;
use std::path::Path;

use spoor::config::Config;
use spoor::crawl::pipeline::Control;
use spoor::crawl::train::{Cut, Growth, TrainError};
use spoor::daemon::{self, DaemonError};
use spoor::settings::Name;
use spoor::topic::model::Model;
use spoor_lab::demo;

use crate::support::demo_job::{Silent, demo_job};

fn job(folder: &Path, name: &str, model: &str, web: SocketAddr) -> Config {
    let text = demo_job(folder, name, 60, web);
    let more = format!("\n[model]\nname = \"{model}\"\nfolder = {folder:?}\n");
    Config::parse(&format!("{text}{more}"), "demo.toml").unwrap()
}

#[test]
fn a_model_is_grown_from_the_best_pages_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runtime = daemon::runtime().unwrap();
    let server = spoor_lab::spawn(demo::web().lab(), SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = runtime.block_on(server).unwrap();
    let training = demo::training();
    for (name, documents) in [
        ("positive", training.positive),
        ("neutral", training.neutral),
    ] {
        let texts = folder.join("texts").join(name);
        std::fs::create_dir_all(&texts).unwrap();
        for (file, text) in documents {
            std::fs::write(texts.join(file), text).unwrap();
        }
    }
    let crawl = |config: &Config| {
        let control = Control::default();
        let handle = daemon::control_handle(config, &control);
        daemon::crawl(config, runtime.handle(), &mut Silent, control, handle).unwrap()
    };
    let config = job(folder, "first", "model", server.addr);
    let growth = Growth {
        cut: Cut::Medium,
        min_sentences: 5,
        ..Growth::default()
    };
    let grow =
        |growth: &Growth| daemon::train_from_job(&config, growth, runtime.handle(), &mut Silent);
    daemon::train(&config, runtime.handle(), &mut Silent).unwrap();
    let said = grow(&growth).err().unwrap().to_string();
    assert!(said.contains("run `spoor crawl` first"), "{said}");
    crawl(&config);

    let old = Model::load(&folder.join("model")).unwrap();
    let new = grow(&growth).unwrap();
    assert_eq!(new.folder, folder.join("model-grown"));
    let grown = new.facts.grown.clone().unwrap();
    assert_eq!(
        (grown.job.as_str(), grown.from.as_str()),
        ("first", "model")
    );
    assert_eq!(grown.cut, old.facts.calibration.boundaries.medium);
    assert!(grown.added > 0 && grown.added <= grown.passed, "{grown:?}");
    assert!(grown.passed <= grown.judged && grown.judged <= grown.pages);
    assert!(grown.reached <= grown.cut && grown.share <= 0.2);
    assert!(grown.comparable, "{grown:?}");
    assert_eq!(grown.held_out_before, old.facts.held_out_perplexity);
    assert_eq!(grown.held_out_after, new.facts.held_out_perplexity);
    let sentences = old.facts.training_sentences + grown.sentences;
    assert_eq!(new.facts.training_sentences, sentences);
    assert_eq!(new.facts.held_out_sentences, old.facts.held_out_sentences);
    assert!(folder.join("model-grown/stopwords.tsv").is_file());
    // The contrast is that of the given texts, whatever was crawled.
    let words = |model: &Model| std::fs::read(model.folder.join("words.tsv")).unwrap();
    assert_eq!(words(&new), words(&old));

    // No model is replaced without being asked, least of all the one in use.
    for name in [None, Name::parse("model").ok()] {
        let again = Growth {
            name,
            ..growth.clone()
        };
        match grow(&again) {
            Err(DaemonError::Train(TrainError::Exists { .. })) => {}
            other => panic!("{:?}", other.map(|m| m.folder)),
        }
    }
    let again = Growth {
        replace: true,
        ..growth.clone()
    };
    assert_eq!(grow(&again).unwrap().facts, new.facts, "the same again");
    let none = Growth {
        cut: Cut::At(1.5),
        ..again.clone()
    };
    let said = grow(&none).err().unwrap().to_string();
    assert!(said.contains("take a higher --cut"), "{said}");
    assert!(Model::load(&new.folder).is_ok(), "a failure leaves it");

    let second = job(folder, "second", "model-grown", server.addr);
    let came = crawl(&second);
    assert!(came.status.pages > 0);
    runtime.block_on(server.stop()).unwrap();
}
