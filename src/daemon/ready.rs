//! Checks the prerequisites of training or crawling a job, and reports all missing ones at
//! once.
//!
//! `spoor config check` prints these problems, and a crawl refuses to start because of the
//! same ones. The configuration itself is valid at this point; here its seeds, texts,
//! token and certificates are checked on this machine. Nothing is fetched and nothing is
//! written.

use std::fs;
use std::path::Path;

use crate::address::PageUrl;
use crate::config::{Config, FileError, FileErrors, NO_CONTACT};
use crate::control::{AccessError, Token};
use crate::crawl::checkpoint;
use crate::fetch;
use crate::fetch::identity::KeyFile;
use crate::rules::RuleSet;
use crate::settings::Source;
use crate::topic::model::Model;
use crate::web::scope::Scope;

/// The most seeds out of scope that are listed one by one.
const NAMED: usize = 5;

/// The prerequisites of a crawl.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Every seed of `seeds.urls` and `seeds.files`, each once, excluding those of
    /// `seeds.watch`.
    pub seeds: Vec<PageUrl>,
    /// Problems that do not prevent a run but are probably mistakes.
    pub warnings: Vec<FileError>,
}

/// Checks whether a crawl of the job may start.
///
/// # Errors
///
/// Everything that prevents it.
pub fn for_crawl(config: &Config) -> Result<Ready, FileErrors> {
    let origin = &config.origin;
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    if config.contact().is_err() {
        errors.push(origin.error("job.contact", NO_CONTACT));
    }
    folder(config, &mut errors);
    let seeds = match config.seeds.read() {
        Ok(seeds) => seeds,
        Err(wrong) => {
            errors.extend(wrong.errors().iter().cloned());
            config.seeds.urls.clone()
        }
    };
    if seeds.is_empty() && config.seeds.watch.is_empty() && config.seeds.files.is_empty() {
        let message = "there is no seed, so there is nowhere to begin; list addresses under \
                       seeds.urls, files under seeds.files or tables under seeds.watch";
        errors.push(origin.error("seeds.urls", message));
    } else if seeds.is_empty() && config.seeds.watch.is_empty() && errors.is_empty() {
        let message = "these files contain no address, so there is nowhere to begin";
        errors.push(origin.error("seeds.files", message));
    }
    scope(config, &seeds, &mut errors, &mut warnings);
    if !Model::exists(&config.model_folder()) {
        texts(config, &mut errors);
    }
    authorities(config, &mut errors);
    identity(config, &mut errors);
    dictionary(config, &mut errors);
    rules(config, &mut errors);
    if let Err(error) = Token::of(&config.control) {
        errors.push(access(config, &error));
    }
    none_of(config, errors).map(|()| Ready { seeds, warnings })
}

/// Checks whether the job's model can be trained.
///
/// # Errors
///
/// Everything that prevents it.
pub fn for_training(config: &Config) -> Result<(), FileErrors> {
    let mut errors = Vec::new();
    let mut sources = config
        .train
        .positive
        .iter()
        .chain(config.train.neutral.texts());
    if config.contact().is_err() && sources.any(|source| matches!(source, Source::Url(_))) {
        errors.push(config.origin.error("job.contact", NO_CONTACT));
    }
    texts(config, &mut errors);
    authorities(config, &mut errors);
    identity(config, &mut errors);
    none_of(config, errors)
}

fn none_of(config: &Config, errors: Vec<FileError>) -> Result<(), FileErrors> {
    let subject = match config.origin.file() {
        "" => "the job",
        file => file,
    };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(FileErrors::new(subject, errors))
    }
}

/// Checks that results can have a folder.
fn folder(config: &Config, errors: &mut Vec<FileError>) {
    let folder = config.job_folder();
    let above = folder.ancestors().find(|folder| folder.exists());
    if let Some(above) = above.filter(|above| !above.is_dir()) {
        let message = format!("{} is a file; results need a folder", above.display());
        errors.push(config.origin.error("job.folder", message));
    }
}

/// Checks the rule files.
fn rules(config: &Config, errors: &mut Vec<FileError>) {
    if let Err(wrong) = RuleSet::read(&config.rules.files) {
        errors.extend(wrong.into_errors());
    }
}

/// The scope of a crawl that has already begun may have been narrowed to exclude its own seeds.
fn scope(
    config: &Config,
    seeds: &[PageUrl],
    errors: &mut Vec<FileError>,
    warnings: &mut Vec<FileError>,
) {
    let origin = &config.origin;
    let scope = Scope::new(config.scope.clone());
    let watched = config.seeds.watch.iter().map(|seed| &seed.url);
    let all: Vec<&PageUrl> = seeds.iter().chain(watched).collect();
    let outside: Vec<String> = all
        .iter()
        .filter_map(|url| {
            let objection = scope.judge_page(url, 0).err()?;
            Some(format!("{url}: {objection}"))
        })
        .collect();
    let Some(first) = outside.first() else {
        return;
    };
    let begun = config.job_folder().join("frontier").exists();
    if outside.len() == all.len() && !begun {
        let message = format!(
            "no seed is within [scope], so there is nothing to fetch ({first}); change [scope] or \
             the seeds"
        );
        errors.push(origin.error("scope", message));
        return;
    }
    for seed in outside.iter().take(NAMED) {
        let message = format!("a seed is not within [scope] and is left out: {seed}");
        warnings.push(origin.error("seeds", message));
    }
    if let Some(more) = outside.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let message = format!("{more} more seeds are not within [scope] and are left out");
        warnings.push(origin.error("seeds", message));
    }
}

fn texts(config: &Config, errors: &mut Vec<FileError>) {
    let (origin, section) = (&config.origin, &config.train);
    if section.positive.is_empty() {
        let message = format!(
            "names no text about the topic, and there is no model in {}; list pages, files or \
             folders there",
            config.model_folder().display()
        );
        errors.push(origin.error("train.positive", message));
    }
    for (key, sources) in [
        ("train.positive", section.positive.as_slice()),
        ("train.neutral", section.neutral.texts()),
    ] {
        for source in sources {
            if let Source::Path(path) = source
                && let Err(why) = readable(path)
            {
                errors.push(origin.error(key, format!("{}: {why}", path.display())));
            }
        }
    }
}

/// Whether a file or a folder can be opened.
fn readable(path: &Path) -> std::io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        fs::read_dir(path).map(drop)
    } else {
        crate::fs::open(path).map(drop)
    }
}

fn identity(config: &Config, errors: &mut Vec<FileError>) {
    let section = &config.identity;
    let mut wrong = |key: &str, why: String| errors.push(config.origin.error(key, why));
    if section.key.is_some() != section.agent.is_some() {
        let (given, other) = match section.key {
            Some(_) => ("identity.key", "identity.agent"),
            None => ("identity.agent", "identity.key"),
        };
        wrong(
            given,
            format!("{other} is missing; `spoor keys new` prints both"),
        );
    }
    if let Some(agent) = &section.agent
        && (agent.scheme() != "https" || agent.path_and_query() != "/")
    {
        let why = "is not the https address of a site without a path, as https://bot.example.org";
        wrong("identity.agent", why.to_owned());
    }
    if let Some(from) = &section.from
        && from.as_str().starts_with("http")
    {
        wrong("identity.from", "is not a mail address".to_owned());
    }
    if !section.sign.is_empty() && section.key.is_none() {
        wrong(
            "identity.sign",
            "has no effect without identity.key".to_owned(),
        );
    }
    if let Some(path) = &section.key
        && let Err(error) = KeyFile::load(path)
    {
        wrong("identity.key", error.to_string());
    }
}

fn authorities(config: &Config, errors: &mut Vec<FileError>) {
    if let Some(path) = &config.network.extra_ca
        && let Err(error) = fetch::check_authorities(path)
    {
        errors.push(config.origin.error("network.extra_ca", error.to_string()));
    }
}

fn dictionary(config: &Config, errors: &mut Vec<FileError>) {
    if let Err(error) = checkpoint::compression(&config.archive) {
        errors.push(config.origin.error("archive.dictionary", error.to_string()));
    }
}

/// The message already names the key.
fn access(config: &Config, error: &AccessError) -> FileError {
    let key = match config.control.token_file {
        Some(_) => "control.token_file",
        None => "control.listen",
    };
    FileError {
        key: String::new(),
        ..config.origin.error(key, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path, text: &str) -> Config {
        let file = folder.join("x.toml");
        fs::write(&file, text).unwrap();
        Config::load(&file).unwrap()
    }

    fn lines(errors: &FileErrors) -> Vec<String> {
        let errors = errors.errors().iter();
        errors
            .map(|e| {
                let line = e.place.map_or(0, |place| place.line);
                format!("{line} {}: {}", e.key, e.message)
            })
            .collect()
    }

    #[test]
    fn everything_that_a_crawl_would_refuse_is_reported_at_once_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[job]\nname = \"x\"\n\n[seeds]\nfiles = [\"no-seeds.txt\"]\n\n[train]\n\
                    positive = [\n  \"no-text.txt\",\n  \"https://example.org/a\",\n]\n\
                    neutral = [\"none\"]\n\n[network]\nextra_ca = \"no.pem\"\n\n\
                    [control]\ntoken_file = \"no-token\"\n";
        let said = lines(&for_crawl(&config(folder.path(), text)).unwrap_err());
        let starts = [
            "1 job.contact: is not set".to_owned(),
            "0 seeds.files: cannot be read".to_owned(),
            format!(
                "8 train.positive: {}/no-text.txt: No such",
                folder.path().display()
            ),
            format!(
                "12 train.neutral: {}/none: No such",
                folder.path().display()
            ),
            "15 network.extra_ca: ".to_owned(),
            "18 : control.token_file".to_owned(),
        ];
        assert_eq!(said.len(), starts.len(), "{said:#?}");
        for (said, start) in said.iter().zip(&starts) {
            assert!(said.starts_with(start.as_str()), "{said}\nnot {start}");
        }
    }

    #[test]
    fn a_job_without_seeds_or_texts_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[job]\nname = \"x\"\ncontact = \"me@example.org\"\n";
        let said = lines(&for_crawl(&config(folder.path(), text)).unwrap_err());
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(
            said[0].starts_with("0 seeds.urls: there is no seed"),
            "{}",
            said[0]
        );
        assert!(
            said[1].starts_with("0 train.positive: names no text"),
            "{}",
            said[1]
        );
        fs::write(folder.path().join("seeds.txt"), "# none yet\n").unwrap();
        let text = format!(
            "{text}[seeds]\nfiles = [\"seeds.txt\"]\n[train]\npositive = [\"seeds.txt\"]\n"
        );
        let said = lines(&for_crawl(&config(folder.path(), &text)).unwrap_err());
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(
            said[0].starts_with("5 seeds.files: these files contain no address"),
            "{}",
            said[0]
        );
    }

    #[test]
    fn seeds_out_of_scope_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("t.txt"), "text").unwrap();
        let text = |accept: &str| {
            format!(
                "[job]\nname = \"x\"\ncontact = \"me@example.org\"\n[seeds]\n\
                 urls = [\"https://a.org/\", \"https://b.org/\"]\n[train]\npositive = [\"t.txt\"]\n\
                 [scope]\naccept = [{accept}]\n"
            )
        };
        let none = config(folder.path(), &text("\"org,other\""));
        let said = lines(&for_crawl(&none).unwrap_err());
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(
            said[0].starts_with("8 scope: no seed is within"),
            "{}",
            said[0]
        );
        let half = for_crawl(&config(folder.path(), &text("\"org,a\""))).unwrap();
        assert_eq!(half.seeds.len(), 2);
        assert_eq!(half.warnings.len(), 1);
        let warning = half.warnings[0].to_string();
        assert!(
            warning.contains(":4:2: seeds: a seed is not within"),
            "{warning}"
        );
        assert!(warning.contains("https://b.org/"), "{warning}");
        // A resumed crawl may have left its seeds behind.
        fs::create_dir_all(none.job_folder().join("frontier")).unwrap();
        assert_eq!(for_crawl(&none).unwrap().warnings.len(), 2);
        fs::create_dir_all(none.job_folder().join("frontier")).unwrap();
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("texts")).unwrap();
        fs::write(folder.path().join("seeds.txt"), "https://a.org/\n").unwrap();
        let text = "[job]\nname = \"x\"\ncontact = \"me@example.org\"\n[seeds]\n\
                    files = [\"seeds.txt\"]\n[train]\npositive = [\"texts\"]\n";
        let config = config(folder.path(), text);
        assert_eq!(for_crawl(&config).unwrap().seeds.len(), 1);
        assert_eq!(config.job_folder(), folder.path().join("jobs/x"));
        assert_eq!(config.model_folder(), folder.path().join("models/x"));
    }
}
