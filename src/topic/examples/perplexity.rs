//! Trains a 5-gram model on one text, and rates others by it: `cargo run -p spoor-topic
//! --example perplexity TEXT FILE...`. The lower the perplexity, the nearer to the text.

use spoor_topic::lm::{KenLm, arpa, estimate, perplexity, sentences};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let text = spoor_values::fs::read_to_string(arguments.next().unwrap_or_default())?;
    let file = std::env::temp_dir().join(format!("perplexity-{}.arpa", std::process::id()));
    arpa::write(&estimate(sentences([text.as_str()]), 5)?, &file)?;
    let model = KenLm::load(&file)?;
    std::fs::remove_file(&file)?;
    for other in arguments {
        let text = spoor_values::fs::read_to_string(&other)?;
        let rated = perplexity::document(&model, &sentences([text.as_str()]));
        println!("{:8.0} {other}", rated.perplexity);
    }
    Ok(())
}
