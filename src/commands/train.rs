//! `spoor train JOB.toml`, `spoor train --from-job JOB.toml`

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use spoor::config::Config;
use spoor::crawl::train::{Cut, Growth};
use spoor::daemon;
use spoor::settings::Name;
use spoor::topic::model::Grown;
use spoor::topic::model::Model;

use super::print_json;
use super::progress::Progress;

/// Train the model that a job names, or a new one from the best pages it has crawled.
#[derive(Debug, Args)]
pub struct Train {
    /// The job's TOML file.
    #[arg(required_unless_present = "from_job", conflicts_with = "from_job")]
    job: Option<PathBuf>,
    /// Train a new model on the texts of this job and the best pages it has crawled.
    #[arg(long, value_name = "JOB")]
    from_job: Option<PathBuf>,
    /// The highest perplexity of the best pages: high, medium (of the model that the job
    /// uses) or a number.
    #[arg(long, value_name = "CUT", default_value = "high", value_parser = cut, requires = "from_job")]
    cut: Cut,
    /// The fewest sentences of such a page.
    #[arg(long, value_name = "N", default_value_t = Growth::default().min_sentences, requires = "from_job")]
    min_sentences: usize,
    /// The largest share of crawled sentences in the training text, from 0 to 0.99.
    #[arg(long, value_name = "SHARE", default_value_t = Growth::default().share, value_parser = share, requires = "from_job")]
    share: f64,
    /// The name of the new model; by default that of the job's with `-grown` appended.
    #[arg(long, value_name = "NAME", value_parser = name, requires = "from_job")]
    name: Option<Name>,
    /// Replace an existing model of that name.
    #[arg(long, requires = "from_job")]
    replace: bool,
    /// Train even with fewer sentences than train.min_sentences.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Train {
    pub fn run(self) -> Result<()> {
        let runtime = daemon::runtime()?;
        let mut progress = Progress::steps();
        let load = |job: &Path| -> Result<Config> {
            let mut config = Config::load(job)?;
            if self.force {
                config.train.min_sentences = 1;
            }
            Ok(config)
        };
        let model = match (self.job, self.from_job) {
            (_, Some(job)) => {
                let growth = Growth {
                    cut: self.cut,
                    min_sentences: self.min_sentences,
                    share: self.share,
                    name: self.name,
                    replace: self.replace,
                };
                let config = load(&job)?;
                daemon::train_from_job(&config, &growth, runtime.handle(), &mut progress)?
            }
            (Some(job), None) => daemon::train(&load(&job)?, runtime.handle(), &mut progress)?,
            (None, None) => anyhow::bail!("name a job file"),
        };
        progress.finish();
        print(&model, self.json)
    }
}

fn cut(text: &str) -> Result<Cut, String> {
    match text {
        "high" => Ok(Cut::High),
        "medium" => Ok(Cut::Medium),
        number => match number.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(Cut::At(number)),
            _ => Err("allowed: high, medium or a perplexity above 0".to_owned()),
        },
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=0.99).contains(&share) => Ok(share),
        _ => Err("allowed: a number from 0 to 0.99".to_owned()),
    }
}

fn name(text: &str) -> Result<Name, String> {
    Name::parse(text)
}

fn print(model: &Model, json: bool) -> Result<()> {
    let facts = &model.facts;
    if json {
        let keywords: Vec<&str> = model
            .keywords
            .ranked()
            .iter()
            .map(|(token, _)| token.as_str())
            .collect();
        let came = json!({"model": model.folder, "facts": facts, "keywords": keywords});
        return print_json(&came);
    }
    let calibration = &facts.calibration;
    let b = &calibration.boundaries;
    println!("model               {}", model.folder.display());
    if let Some(grown) = &facts.grown {
        print_grown(grown);
    }
    let whole = match facts.held_out_documents {
        Some(documents) => format!(", {documents} whole documents"),
        None => String::new(),
    };
    println!(
        "corpus              {} sentences, {} tokens; {} more held out{whole}",
        facts.training_sentences, facts.training_tokens, facts.held_out_sentences
    );
    println!("held-out perplexity {:.1}", facts.held_out_perplexity);
    if let Some(neutral) = facts.neutral_perplexity {
        println!("neutral perplexity  {neutral:.1}, of the median document");
    }
    println!(
        "boundaries          high {} medium {} normal {} razor {}",
        b.high, b.medium, b.normal, b.razor
    );
    println!("anchor threshold    {}", calibration.anchor_threshold);
    let measured = [
        ("documents", &calibration.documents),
        ("short texts", &calibration.short_texts),
    ];
    for (name, measured) in measured {
        if let Some(m) = measured {
            println!(
                "{name:<19} {} on topic and {} neutral; the cut at {:.0} misses {:.1} % of those \
                 and takes {:.1} % of these",
                m.positive.texts,
                m.neutral.texts,
                m.cut,
                m.missed * 100.0,
                m.mistaken * 100.0
            );
        }
    }
    let best: Vec<&str> = model
        .keywords
        .ranked()
        .iter()
        .take(10)
        .map(|(token, _)| token.as_str())
        .collect();
    println!("best keywords       {}", best.join(" "));
    if facts.grown.is_some()
        && let Some(name) = model.folder.file_name()
    {
        println!(
            "to crawl with it    write name = \"{}\" under [model]",
            name.display()
        );
    }
    Ok(())
}

fn print_grown(grown: &Grown) {
    println!(
        "grown from          {} and {} of {} pages of the job {}, {} sentences or {:.0} %",
        grown.from,
        grown.added,
        grown.pages,
        grown.job,
        grown.sentences,
        grown.share * 100.0
    );
    println!(
        "cut                 {:.0}: {} of {} pages with enough text pass; the worst added has {:.0}",
        grown.cut, grown.passed, grown.judged, grown.reached
    );
    let better = if grown.held_out_after < grown.held_out_before {
        "better"
    } else {
        "not better: keep the old model"
    };
    let note = if grown.comparable {
        better
    } else {
        "not comparable: the old model was trained on other texts, or in another way, and may \
         know them"
    };
    println!(
        "held out before     {:.1}, after {:.1}; {note}",
        grown.held_out_before, grown.held_out_after
    );
}
