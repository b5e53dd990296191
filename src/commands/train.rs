//! `spoor train JOB.toml`

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use spoor::config::Config;
use spoor::daemon;

use super::print_json;
use super::progress::Progress;

pub fn run(job: &Path, json: bool) -> Result<()> {
    let config = Config::load(job)?;
    let runtime = daemon::runtime()?;
    let mut progress = Progress::steps();
    let model = daemon::train(&config, runtime.handle(), &mut progress)?;
    progress.finish();
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
    let b = &facts.boundaries;
    println!("model               {}", model.folder.display());
    println!(
        "corpus              {} sentences, {} tokens; {} more held out",
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
    let best: Vec<&str> = model
        .keywords
        .ranked()
        .iter()
        .take(10)
        .map(|(token, _)| token.as_str())
        .collect();
    println!("best keywords       {}", best.join(" "));
    Ok(())
}
