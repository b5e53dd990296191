//! Reads plans from TOML and checks them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::super::steps::measures;
use super::{
    ByRules, Copies, Format, Keep, NEUTRAL, Output, Perplexity, Plan, Quality, Source, Step,
};
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// A plan as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    source: Source,
    #[serde(default)]
    step: Vec<Spanned<toml::Table>>,
    #[serde(default)]
    output: Output,
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file, and the line or the key.
    pub fn load(path: &Path) -> Result<Self, ToolError> {
        let text = crate::fs::read_to_string(path).map_err(IoError::at(path, "reading"));
        let text = text.map_err(ToolError::advising("give the path of a plan in TOML"))?;
        Self::parse(path, &text)
    }

    /// The same for the text of the file `path`.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file, and the line or the key.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ToolError> {
        let toml = |why: String| ToolError::at(path, why.trim_end());
        let raw: RawPlan = toml::from_str(text).map_err(|error| toml(error.to_string()))?;
        let mut steps = Vec::new();
        for (number, table) in (1..).zip(raw.step) {
            let before = text.get(..table.span().start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let step = step(table.into_inner());
            steps.push(step.map_err(|why| toml(format!("line {line}, [[step]] {number}: {why}")))?);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut plan = Self {
            file: path.to_owned(),
            text: text.to_owned(),
            source: raw.source,
            steps,
            output: raw.output,
        };
        plan.place(folder);
        let checked = plan.check();
        checked.map_err(|(key, why)| ToolError::at(path, format_args!("{key}: {why}")))?;
        Ok(plan)
    }

    /// Makes paths relative to the folder of the plan.
    fn place(&mut self, folder: &Path) {
        let Source {
            jobs,
            archives,
            selections,
            folders,
            jsonl,
        } = &mut self.source;
        for list in [jobs, archives, selections, folders, jsonl] {
            list.iter_mut().for_each(|path| *path = folder.join(&path));
        }
        for step in &mut self.steps {
            match step {
                Step::Perplexity(step) if !step.is_neutral() && step.model != Path::new("") => {
                    step.model = folder.join(&step.model);
                }
                Step::Rules(step) => {
                    let all = step.files.iter_mut();
                    all.for_each(|path| *path = folder.join(&path));
                }
                Step::Copies(step) => {
                    let all = step.against.iter_mut().chain(&mut step.synonyms);
                    all.for_each(|path| *path = folder.join(&path));
                }
                Step::Grammar(step) => {
                    step.files().for_each(|path| *path = folder.join(&path));
                }
                Step::Entities(step) if !step.list.as_os_str().is_empty() => {
                    step.files().for_each(|path| *path = folder.join(&path));
                }
                _ => {}
            }
        }
        self.output.formats.sort_unstable();
        self.output.formats.dedup();
        self.output
            .formats
            .retain(|format| *format != Format::Jsonl);
        if self.output.folder.as_os_str().is_empty() {
            let name = self.file.file_stem().unwrap_or_default();
            self.output.folder = PathBuf::from(name);
        }
        self.output.folder = folder.join(&self.output.folder);
    }

    fn check(&self) -> Result<(), (String, String)> {
        let Source {
            jobs,
            archives,
            selections,
            folders,
            jsonl,
        } = &self.source;
        let wrong = |key: &str, why: &str| Err((key.to_owned(), why.to_owned()));
        if !(0.0..=1.0).contains(&self.output.images.words) {
            return wrong("output.images.words", "not a share from 0 to 1");
        }
        if [jobs, archives, selections, folders, jsonl]
            .iter()
            .all(|list| list.is_empty())
        {
            return wrong(
                "source",
                "there is nothing to read; name jobs, archives, selections, folders or jsonl",
            );
        }
        if self.output.shard_bytes == 0 {
            return wrong("output.shard_bytes", "a file needs at least one byte");
        }
        if let Some(store) = &self.output.store {
            let path = store
                .strip_prefix("s3://")
                .and_then(|rest| rest.split_once('/'));
            let path = path.map(|(bucket, path)| (bucket, path.trim_matches('/')));
            if path.is_none_or(|(bucket, path)| bucket.is_empty() || path.is_empty()) {
                let why = format!("`{store}` is not of the form s3://BUCKET/PATH");
                return wrong("output.store", &why);
            }
        }
        let mut bucketed = 0;
        let mut ruled = 0;
        let mut once = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let key = format!("[[step]] {} ({})", number + 1, step.kind());
            let step = match step {
                Step::Extract(_) if number > 0 => {
                    Err("pages are read first, so this step has to be the first one".to_owned())
                }
                Step::Perplexity(step) => {
                    bucketed += usize::from(step.buckets.is_some());
                    check_perplexity(step, bucketed)
                }
                Step::Quality(step) => check_quality(step),
                Step::Copies(step) => check_copies(step),
                Step::Language(step) => share("least", step.least),
                Step::Topic(step) => share("least", step.least),
                Step::Repeated(step) if step.pages < 2 => {
                    Err(format!("`pages` is {}; give at least 2", step.pages))
                }
                Step::Consent(step) if step.obey.is_empty() => {
                    Err("`obey` is empty; name robots, tdm, content-signal or rsl".to_owned())
                }
                Step::Rules(step) => {
                    ruled += 1;
                    check_rules(step, ruled)
                }
                Step::Grammar(step) => step.check(),
                Step::Entities(step) => step.check(),
                Step::Mask(step) if step.what.is_empty() => {
                    Err("`what` is empty; name mail, phone or ip".to_owned())
                }
                _ => Ok(()),
            };
            step.map_err(|why| (key, why))?;
            self.check_places(number, &mut once)?;
        }
        Ok(())
    }

    /// A step that records offsets may occur once, and no later step may change texts.
    fn check_places(
        &self,
        number: usize,
        once: &mut Vec<&'static str>,
    ) -> Result<(), (String, String)> {
        let Some(step @ (Step::Grammar(_) | Step::Entities(_))) = self.steps.get(number) else {
            return Ok(());
        };
        let kind = step.kind();
        let wrong = |why: String| Err((format!("[[step]] {} ({kind})", number + 1), why));
        if once.contains(&kind) {
            return wrong("there is another step of this kind; a document has one".to_owned());
        }
        once.push(kind);
        let mut behind = self.steps.iter().skip(number + 1);
        match behind.find(|step| step.changes_texts()) {
            None => Ok(()),
            Some(later) => wrong(format!(
                "it notes places in texts, and `{}` changes these; put it behind that step",
                later.kind()
            )),
        }
    }
}

fn step(mut table: toml::Table) -> Result<Step, String> {
    let kinds = Step::KINDS.join(", ");
    let kind = match table.remove("kind") {
        Some(toml::Value::String(kind)) => kind,
        Some(_) => return Err(format!("`kind` is not a text; give one of {kinds}")),
        None => return Err(format!("`kind` is missing; give one of {kinds}")),
    };
    match Step::of(&kind, table) {
        Some(step) => step.map_err(|error| format!("{kind}: {}", error.message())),
        None => Err(format!("`kind` is `{kind}`; give one of {kinds}")),
    }
}

fn share(key: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{key}` is {value}; give a number from 0 to 1"))
    }
}

fn check_perplexity(step: &Perplexity, bucketed: usize) -> Result<(), String> {
    if step.model.as_os_str().is_empty() {
        return Err(format!(
            "`model` is missing; give the folder of a model or \"{NEUTRAL}\""
        ));
    }
    if let Some([head, middle]) = step.buckets {
        share("buckets", head)?;
        share("buckets", middle)?;
        if head >= middle {
            return Err(format!("`buckets`: {head} is not below {middle}"));
        }
        if bucketed > 1 {
            return Err("another step has buckets, and a document has only one".to_owned());
        }
    } else if !step.keep.is_empty() {
        return Err("`keep` names buckets, so give `buckets`, as [0.3, 0.6]".to_owned());
    }
    Ok(())
}

fn check_quality(step: &Quality) -> Result<(), String> {
    if step.rules.is_empty() && step.bounds.is_empty() {
        return Err("name `rules`, as [\"gopher\"], or `bounds` of your own".to_owned());
    }
    for (name, bound) in &step.bounds {
        if measures::QualityMeasure::named(name).is_none() {
            let all: Vec<String> = measures::QualityMeasure::all()
                .map(measures::QualityMeasure::name)
                .collect();
            return Err(format!(
                "there is no measure `{name}`; give one of {}",
                all.join(", ")
            ));
        }
        match (bound.least, bound.most) {
            (None, None) => {
                return Err(format!("`bounds.{name}`: give `least`, `most`, or both"));
            }
            (Some(least), Some(most)) if least > most => {
                return Err(format!("`bounds.{name}`: {least} is above {most}"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_rules(step: &ByRules, ruled: usize) -> Result<(), String> {
    if step.files.is_empty() {
        return Err("`files` is empty; name rule files or folders of them".to_owned());
    }
    if ruled > 1 {
        return Err("another step has rules; name all files in one".to_owned());
    }
    Ok(())
}

fn check_copies(step: &Copies) -> Result<(), String> {
    share("least", step.least)?;
    for (key, value, most) in [
        ("words", step.words, 50),
        ("bands", step.bands, 256),
        ("rows", step.rows, 32),
    ] {
        if !(1..=most).contains(&value) {
            return Err(format!(
                "`{key}` is {value}; give a number from 1 to {most}"
            ));
        }
    }
    if step.level.is_part() && matches!(step.keep, Keep::Best | Keep::All) {
        return Err(
            "paragraphs and sentences can keep `first`, `last`, `longest` or `none`".to_owned(),
        );
    }
    Ok(())
}
