//! What the model of the main text sees, and what is read of a page, for training and measuring.
//!
//! `cargo run --release -p spoor-web --example main_text -- features PAGES OUT` writes a row for
//! each block of the pages in a folder (`*.html`, `*.html.gz`): its features to OUT.f32, the rest
//! to OUT.jsonl. `documents PAGES OUT` writes the main text and the metadata of each page to OUT,
//! a JSON object; a file `urls.json` in the folder may name the address of each. `images PAGES OUT`
//! writes the words of each image likewise.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use spoor_values::address::PageUrl;
use spoor_values::page::{Extracted, Extractor, Fetched, ImageCandidate, TermsHeaders, Validators};
use spoor_web::extract::{self, Options};

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["features", pages, out] => features(Path::new(pages), out),
        ["documents", pages, out] => documents(Path::new(pages), out),
        ["images", pages, out] => images(Path::new(pages), out),
        _ => Err("main_text features|documents|images PAGES OUT".into()),
    }
}

fn features(pages: &Path, out: &str) -> Done {
    let mut rows = BufWriter::new(File::create(format!("{out}.f32"))?);
    let mut blocks = BufWriter::new(File::create(format!("{out}.jsonl"))?);
    let names = extract::feature_names();
    writeln!(blocks, "{}", serde_json::json!({ "names": names }))?;
    for_each_page(pages, |name, fetched| {
        let url = PageUrl::parse("http://page.test/")?;
        let html = extract::markup(&url, fetched, &Options::default()).unwrap_or_default();
        for block in extract::seen_by_model(&url, &html) {
            assert_eq!(block.features.len(), names.len());
            for value in &block.features {
                rows.write_all(&value.to_le_bytes())?;
            }
            let block = serde_json::json!({
                "page": name, "text": block.text, "words": block.words,
                "may_repeat": block.may_repeat, "unit": block.unit, "is_heading": block.is_heading,
            });
            writeln!(blocks, "{block}")?;
        }
        Ok(())
    })?;
    rows.flush()?;
    Ok(blocks.flush()?)
}

fn documents(pages: &Path, out: &str) -> Done {
    let mut documents = serde_json::Map::new();
    for_each_read(pages, |name, page| {
        let main = page.main.unwrap_or_default();
        let blocks = main.blocks.iter();
        let blocks: Vec<_> = blocks
            .map(|block| (block.kind.name(), main.text.get(block.text.clone())))
            .collect();
        let images = main.images.iter();
        let images: Vec<_> = images
            .map(|image| (image.url.as_str(), image.blocks_before))
            .collect();
        let meta = page.metadata;
        let document = serde_json::json!({
            "text": main.text, "blocks": blocks, "images": images, "title": meta.title, "authors": meta.authors,
            "published": meta.published, "modified": meta.modified,
        });
        documents.insert(name.to_owned(), document);
    })?;
    Ok(fs::write(out, serde_json::to_vec(&documents)?)?)
}

fn images(pages: &Path, out: &str) -> Done {
    let mut all = serde_json::Map::new();
    for_each_read(pages, |name, page| {
        let words = |image: ImageCandidate| {
            serde_json::json!({
                "url": image.url, "width": image.width, "height": image.height,
                "embedding": image.embedding, "texts": image.texts,
            })
        };
        let images: Vec<_> = page.images.into_iter().map(words).collect();
        all.insert(name.to_owned(), images.into());
    })?;
    Ok(fs::write(out, serde_json::to_vec(&all)?)?)
}

/// Calls `done` with each page as it is read.
fn for_each_read(pages: &Path, mut done: impl FnMut(&str, Extracted)) -> Done {
    let options = Options {
        documents: Some(Extractor::Main),
        ..Options::default()
    };
    let urls: HashMap<String, String> = match spoor_values::fs::read(pages.join("urls.json")) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => HashMap::new(),
    };
    for_each_page(pages, |name, fetched| {
        let url = urls.get(name).map_or("http://page.test/", String::as_str);
        done(
            name,
            extract::extract(&PageUrl::parse(url)?, fetched, &options)?,
        );
        Ok(())
    })
}

fn for_each_page(pages: &Path, mut read: impl FnMut(&str, &Fetched) -> Done) -> Done {
    let mut paths: Vec<_> = fs::read_dir(pages)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end != "json"));
    paths.sort();
    for path in paths {
        let bytes = spoor_values::fs::read(&path)?;
        let mut body = Vec::new();
        if path.extension().is_some_and(|end| end == "gz") {
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut body)?;
        } else {
            body = bytes;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split(".html").next().unwrap_or_default();
        let fetched = Fetched {
            status: 200,
            content_type: Some("text/html".to_owned()),
            terms: TermsHeaders::default(),
            validators: Validators::default(),
            body: body.into(),
            truncated: false,
            elapsed: Default::default(),
            date: None,
        };
        read(name, &fetched)?;
    }
    Ok(())
}
