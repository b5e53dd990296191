//! Minimal PDF files: text at given places in the font Helvetica, which every reader has.
//! Characters beyond ASCII are those of Latin-1, and `ﬁ`, `ﬂ`.

use std::fmt::Write as _;

/// A file under construction. Places are points from the lower left corner of a page of 612 by 792.
#[derive(Debug, Clone, Default)]
pub struct Made {
    pages: Vec<MadePage>,
    title: Option<String>,
    author: Option<String>,
    created: Option<String>,
    encrypted: bool,
}

#[derive(Debug, Clone, Default)]
struct MadePage {
    content: String,
    links: Vec<((u32, u32, u32, u32), String)>,
}

impl Made {
    pub fn titled(title: &str, author: &str) -> Self {
        Self {
            title: Some(title.to_owned()),
            author: Some(author.to_owned()),
            created: Some("D:20240229123005+01'00'".to_owned()),
            ..Self::default()
        }
    }

    /// Begins a page.
    pub fn page(&mut self) -> &mut Self {
        self.pages.push(MadePage::default());
        self
    }

    /// Puts text of 10 points on the page.
    pub fn put(&mut self, x: u32, y: u32, text: &str) -> &mut Self {
        self.sized(x, y, 10, text)
    }

    /// Puts text of another size on the page.
    pub fn sized(&mut self, x: u32, y: u32, size: u32, text: &str) -> &mut Self {
        let shown = shown(text);
        let page = self.pages.last_mut().unwrap();
        writeln!(page.content, "BT /F {size} Tf {x} {y} Td ({shown}) Tj ET").unwrap();
        self
    }

    /// Puts lines below one another, 12 points apart.
    pub fn lines(&mut self, x: u32, top: u32, lines: &[&str]) -> &mut Self {
        for (number, line) in (0..).zip(lines) {
            self.put(x, top - 12 * number, line);
        }
        self
    }

    /// Makes a rectangle of the page a link.
    pub fn link(&mut self, area: (u32, u32, u32, u32), url: &str) -> &mut Self {
        let page = self.pages.last_mut().unwrap();
        page.links.push((area, url.to_owned()));
        self
    }

    /// Content of the page in PDF's own operators.
    #[allow(dead_code, reason = "for the unit tests, which share this file")]
    pub fn raw(&mut self, content: &str) -> &mut Self {
        self.pages.last_mut().unwrap().content.push_str(content);
        self
    }

    /// Marks the file as encrypted with an unknown password.
    pub fn encrypted(&mut self) -> &mut Self {
        self.encrypted = true;
        self
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        // 1 catalog, 2 page tree, 3 font, 4 information, then two for each page and one for each
        // link.
        let mut objects: Vec<String> = vec![
            "<< /Type /Catalog /Pages 2 0 R /Lang (en) >>".to_owned(),
            String::new(),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding \
             /BaseEncoding /WinAnsiEncoding /Differences [1 /fi /fl] >> >>"
                .to_owned(),
        ];
        let mut info = String::from("<<");
        for (name, text) in [
            ("Title", &self.title),
            ("Author", &self.author),
            ("CreationDate", &self.created),
        ] {
            if let Some(text) = text {
                write!(info, " /{name} ({})", shown(text)).unwrap();
            }
        }
        objects.push(info + " >>");
        let mut kids = String::new();
        for page in &self.pages {
            let own = objects.len() + 1;
            write!(kids, " {own} 0 R").unwrap();
            let links: Vec<String> = (0..page.links.len())
                .map(|number| format!("{} 0 R", own + 2 + number))
                .collect();
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font \
                 << /F 3 0 R >> >> /Contents {} 0 R /Annots [{}] >>",
                own + 1,
                links.join(" ")
            ));
            let content = &page.content;
            let length = content.len();
            objects.push(format!(
                "<< /Length {length} >>\nstream\n{content}\nendstream"
            ));
            for ((x0, y0, x1, y1), url) in &page.links {
                objects.push(format!(
                    "<< /Type /Annot /Subtype /Link /Rect [{x0} {y0} {x1} {y1}] /A << /S /URI \
                     /URI ({}) >> >>",
                    shown(url)
                ));
            }
        }
        let count = self.pages.len();
        objects[1] = format!("<< /Type /Pages /Kids [{kids} ] /Count {count} >>");
        let encrypt = if self.encrypted {
            let key = "x".repeat(32);
            objects.push(format!(
                "<< /Filter /Standard /V 1 /R 2 /O ({key}) /U ({key}) /P -4 >>"
            ));
            format!(
                " /Info 4 0 R /Encrypt {} 0 R /ID [(id) (id)]",
                objects.len()
            )
        } else {
            " /Info 4 0 R".to_owned()
        };
        file(&objects, &encrypt)
    }
}

/// A file of these objects, with the catalog first.
pub fn file(objects: &[String], more: &str) -> Vec<u8> {
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(out.len());
        out.extend(format!("{number} 0 obj\n{object}\nendobj\n").bytes());
    }
    let table = out.len();
    let size = objects.len() + 1;
    out.extend(format!("xref\n0 {size}\n0000000000 65535 f \n").bytes());
    for place in places {
        out.extend(format!("{place:010} 00000 n \n").bytes());
    }
    let trailer = format!("trailer\n<< /Size {size} /Root 1 0 R{more} >>\n");
    out.extend(format!("{trailer}startxref\n{table}\n%%EOF\n").bytes());
    out
}

/// A PDF string.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '(' | ')' | '\\' => {
                shown.push('\\');
                shown.push(c);
            }
            'ﬁ' => shown.push_str("\\001"),
            'ﬂ' => shown.push_str("\\002"),
            ' '..='~' => shown.push(c),
            c => write!(shown, "\\{:03o}", u32::from(c)).unwrap(),
        }
    }
    shown
}

/// A small manual: three pages with a header and a page number, hyphens, a ligature and a link.
pub fn manual() -> Vec<u8> {
    let mut made = Made::titled("The lamp", "Ada Light");
    for (number, word) in (1..).zip(["first", "second", "third"]) {
        made.page();
        made.put(72, 760, "The lamp");
        made.put(500, 760, &format!("Chapter {number}"));
        made.lines(
            72,
            700,
            &[
                &format!("This is the {word} page about a light-"),
                "house and its lamp. The lighthouse was built of well-",
                "known stones. The well-known keeper lights the ﬁre at night,",
                "and ships at sea see it from far away.",
            ],
        );
        let own = format!("page of his own, the {word}.");
        made.lines(72, 640, &["The keeper has a whole", &own]);
        made.put(300, 40, &number.to_string());
    }
    made.link((72, 636, 190, 650), "http://lamps.test/keeper");
    made.bytes()
}

/// A file with one of ten kinds of damage; equal seeds do equal damage.
pub fn damaged(file: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut bytes = file.to_vec();
    let length = bytes.len();
    let replaced = |from: &str, to: &str| {
        let text: String = file.iter().map(|byte| char::from(*byte)).collect();
        let text = text.replace(from, to);
        text.chars().map(|c| c as u8).collect::<Vec<u8>>()
    };
    match seed % 10 {
        0 => bytes.truncate(length / 2),
        1 => bytes.truncate(length * 19 / 20),
        2 => (0..20).for_each(|_| bytes[random(length)] ^= 1 << random(8)),
        3 => (0..length / 50).for_each(|_| bytes[random(length)] = random(256) as u8),
        4 => {
            let from = random(length * 3 / 4);
            bytes[from..(from + length / 10).min(length)].fill(0);
        }
        5 => {
            let from = random(length / 2);
            bytes.drain(from..from + length / 20);
        }
        6 => bytes = replaced("/Length ", "/Length 9"),
        7 => bytes = replaced("endobj", "endobx"),
        8 => drop(bytes.drain(..length / 3)),
        _ => bytes = replaced(" 0 R", "0 0 R"),
    }
    bytes
}
