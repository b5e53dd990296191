//! Lists the records of WARC and ARC files, compressed or not: `cargo run -p spoor-archive
//! --example list FILE...`. Damage is shown in its place, and the list continues after it.

use std::path::Path;

use spoor_archive::Reader;
use spoor_archive::reader::Item;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in std::env::args().skip(1) {
        let mut reader = Reader::open(Path::new(&file))?;
        while let Some(item) = reader.next_item()? {
            match item {
                Item::Record(entry) => {
                    let record = &entry.record;
                    let date = record.date.as_deref().unwrap_or("-");
                    let uri = record.uri.as_deref().unwrap_or("-");
                    println!("{:10} {date:20} {uri}", record.kind.name());
                }
                Item::Gap(gap) => println!("{}", gap.describe(&file)),
            }
        }
    }
    Ok(())
}
