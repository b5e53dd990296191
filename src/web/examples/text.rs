//! Prints the text of saved HTML pages, and how many links and images they have:
//! `cargo run -p spoor-web --example text URL FILE...`. Links resolve against the URL.

use spoor_values::address::PageUrl;
use spoor_web::extract::{Options, extract_text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = PageUrl::parse(&arguments.next().unwrap_or_default())?;
    for file in arguments {
        let page = extract_text(
            &url,
            &spoor_values::fs::read_to_string(&file)?,
            &Options::default(),
        );
        for block in &page.blocks {
            println!("{block}");
        }
        let (links, images) = (page.links.len(), page.images.len());
        eprintln!("{file}: {links} links, {images} images");
    }
    Ok(())
}
