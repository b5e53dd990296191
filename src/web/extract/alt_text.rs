//! Recognises alt texts that were not written for the image.
//!
//! Content management systems fill `alt` with the file's name or path, with the camera's
//! name for it, or with a word that fits every image. Only one text and one address are
//! examined here; the frontier knows whether a host repeats a text on many pages.

use percent_encoding::percent_decode_str;

use crate::address::PageUrl;
use crate::page::AltKind;

/// Words that only say that there is an image: English, German, French, Spanish,
/// Portuguese, Italian, Dutch, Polish, Russian, Turkish, Chinese, Japanese, Korean.
const BOILERPLATE: &str = "\
    avatar banner background button cover fallback graphic headshot icon image images \
    img logo logotype photo photograph photos pic picture pictures pixel placeholder \
    preview screenshot slide spacer thumb thumbnail undefined untitled abbildung \
    beitragsbild bild bilder foto fotos grafik platzhalter titelbild unbenannt \
    vorschaubild illustration vignette fotografía imagen imágenes miniatura fotografia \
    imagem imagens immagine immagini anteprima afbeelding plaatje obraz obrazek \
    zdjęcie изображение картинка фото фотография логотип resim fotoğraf görsel 图片 圖片 \
    照片 图像 缩略图 画像 写真 イメージ ロゴ サムネイル 이미지 사진 로고";

/// Words that add no information to those of [`BOILERPLATE`].
const FILLERS: &str = "\
    a an alt and article author available blog by click company day default \
    description empty enlarge featured for full gallery header here hero large loading \
    main missing my new no null of our post profile site size small stock text the \
    this title to user view website zoom de del der des die du el la le kein keine \
    ohne sans sin titel titre x";

/// Beginnings of the file names that cameras, phones and programs use.
const CAMERA: &str = "\
    cimg dcim dji dsc dscf dscn gopr imag img imgp kgp mvi p pict pxl sam scan sdc wa \
    whatsapp screen shot bildschirmfoto unnamed copy edit edited kopie scaled cropped \
    resized e x px jpg jpeg png gif webp at um am pm";

/// Extensions of image files.
const EXTENSIONS: [&str; 9] = [
    "jpg", "jpeg", "jpe", "png", "gif", "webp", "bmp", "tif", "tiff",
];

/// A text with more words than this is never a label.
const MAX_LABEL_WORDS: usize = 12;
/// How many segments of the path, counted from its end, an alt text may repeat.
const MAX_SEGMENTS: usize = 12;

/// The kind of the text of an image at `url`; `None` if it is blank.
pub(super) fn kind(alt: &str, url: &PageUrl) -> Option<AltKind> {
    let alt = alt.trim();
    if alt.is_empty() {
        return None;
    }
    let alt = alt.to_lowercase();
    let words = words(&alt);
    let is_in = |table: &str, word: &str| table.split(' ').any(|w| w == word);
    // `a` with some words of `b`, and too short for a sentence.
    let made_of = |a: &str, b: &str| {
        words.len() <= MAX_LABEL_WORDS
            && words.iter().all(|word| is_in(a, word) || is_in(b, word))
            && words.iter().any(|word| is_in(a, word))
    };
    let has_digits = alt.contains(|c: char| c.is_ascii_digit());
    let kind = if ends_as_file(&alt)
        || is_path(&words)
        || repeats(&alt, url)
        || is_identifier(&alt)
        || (has_digits && made_of(CAMERA, BOILERPLATE))
        || (words.is_empty() && has_digits)
    {
        AltKind::FileName
    } else if words.is_empty() || made_of(BOILERPLATE, FILLERS) {
        AltKind::Boilerplate
    } else {
        AltKind::Written
    };
    Some(kind)
}

/// Whether a text was written for the image at `url`.
pub(super) fn is_written(text: &str, url: &PageUrl) -> bool {
    kind(text, url) == Some(AltKind::Written)
}

/// Whether an address leads to an image file by its name.
pub(super) fn is_image(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is_one = |e: &str| EXTENSIONS.iter().any(|known| e.eq_ignore_ascii_case(known));
    // In a wiki `File:Cat.jpg` is a page about the image.
    !name.contains(':') && !name.contains("%3A") && extension.is_some_and(is_one)
}

/// The runs of letters.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .collect()
}

fn ends_as_file(alt: &str) -> bool {
    alt.rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && EXTENSIONS.contains(&extension))
}

/// A path of a content management system, with or without its separators.
fn is_path(words: &[&str]) -> bool {
    [
        &["wp", "content", "uploads"][..],
        &["sites", "default", "files"],
        &["wp", "content", "themes"],
    ]
    .iter()
    .any(|path| words.windows(path.len()).any(|window| window == *path))
}

/// One long word with many digits, such as a hash or a database id.
fn is_identifier(alt: &str) -> bool {
    let digits = alt.bytes().filter(u8::is_ascii_digit).count();
    alt.len() >= 12
        && digits * 3 >= alt.len()
        && alt
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// Whether the letters and digits are those of the file name, with or without its
/// extension and its size, or of the end of the path.
fn repeats(alt: &str, url: &PageUrl) -> bool {
    let alt = letters(alt);
    if alt.is_empty() {
        return false;
    }
    let mut segments = url.path().rsplit('/').map(|segment| {
        let decoded = percent_decode_str(segment).decode_utf8_lossy();
        decoded.to_lowercase()
    });
    let Some(name) = segments.next() else {
        return false;
    };
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if EXTENSIONS.contains(&extension) => stem,
        _ => &name,
    };
    let without_size = letters(without_size(stem));
    let (stem, name) = (letters(stem), letters(&name));
    if [&stem, &name, &without_size].contains(&&alt) {
        return true;
    }
    let mut ends = [stem, name, without_size];
    for segment in segments.take(MAX_SEGMENTS) {
        let segment = letters(&segment);
        for end in &mut ends {
            *end = format!("{segment}{end}");
            if *end == alt {
                return true;
            }
        }
    }
    false
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The stem without a size added by a program: `cat-300x200`, `330px-cat`, `cat-scaled`,
/// `cat@2x`.
fn without_size(stem: &str) -> &str {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_size = |part: &str| {
        part == "scaled"
            || part.strip_suffix("px").is_some_and(digits)
            || part.strip_suffix('x').is_some_and(digits)
            || part
                .split_once('x')
                .is_some_and(|(width, height)| digits(width) && digits(height))
    };
    let mut stem = stem;
    if let Some((first, rest)) = stem.split_once('-')
        && is_size(first)
    {
        stem = rest;
    }
    while let Some((rest, last)) = stem.rsplit_once(['-', '_', '@'])
        && is_size(last)
    {
        stem = rest;
    }
    stem
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(path: &str) -> PageUrl {
        PageUrl::parse(&format!("https://blog.example/{path}")).unwrap()
    }

    #[test]
    fn alt_texts_of_programs_and_of_people() {
        use AltKind::{Boilerplate, FileName, Written};
        for (alt, path, expected) in [
            ("wp content uploads 2014 img 1234", "x", FileName),
            ("/wp-content/uploads/2014/05/holiday", "x", FileName),
            ("Sites default files cat", "x", FileName),
            ("IMG_1234", "x.jpg", FileName),
            ("dsc 0001", "x.jpg", FileName),
            ("DSC_0001 (2) copy", "x.jpg", FileName),
            ("IMG-20190704-WA0012", "x.jpg", FileName),
            ("P1010023", "x.jpg", FileName),
            ("Screenshot 2020-01-01 at 10.11.12", "x.png", FileName),
            ("img_5521-scaled-300x200", "x.jpg", FileName),
            ("holiday at sea.JPG", "x", FileName),
            (
                "grey cat on the wall",
                "2014/Grey-Cat_on-the-wall.jpg",
                FileName,
            ),
            (
                "Grey cat on the wall",
                "grey-cat-on-the-wall-300x200.jpg",
                FileName,
            ),
            ("grey cat jpg", "a/grey-cat.jpg", FileName),
            ("Greycat", "330px-GreyCat.png", FileName),
            ("kätzchen", "K%C3%A4tzchen.webp", FileName),
            (
                "2014 05 cats grey cat",
                "img/2014/05/cats/grey-cat.jpg",
                FileName,
            ),
            ("5f4dcc3b5aa765d61d8327deb882cf99", "x", FileName),
            ("1234", "x", FileName),
            ("image", "x", Boilerplate),
            ("Logo", "x", Boilerplate),
            ("Image 3", "x", Boilerplate),
            ("Photo of the day", "x", Boilerplate),
            ("post thumbnail", "x", Boilerplate),
            ("No image available", "x", Boilerplate),
            ("Beitragsbild", "x", Boilerplate),
            ("Imagen 12", "x", Boilerplate),
            ("Фото", "x", Boilerplate),
            ("图片", "x", Boilerplate),
            ("***", "x", Boilerplate),
            ("A grey cat on the garden wall", "grey-cat.jpg", Written),
            ("Apollo 11", "apollo-13.jpg", Written),
            ("Photo of a grey cat", "x", Written),
            ("Logo of the Red Cross", "x", Written),
            ("Bild von Paul Klee", "x", Written),
            ("Boeing 747", "x", Written),
            ("World War 2", "x", Written),
            ("At 3 pm the sun sets", "x", Written),
            ("Кошка на стене", "x", Written),
            ("一只猫", "x", Written),
            (
                "The content of uploads",
                "wp-content/uploads/a.jpg",
                Written,
            ),
        ] {
            assert_eq!(kind(alt, &url(path)), Some(expected), "{alt} at {path}");
        }
        for blank in ["", " ", "\n\t", "\u{3000}"] {
            assert_eq!(kind(blank, &url("x")), None);
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn every_text_but_a_blank_one_is_of_some_kind(
            alt in "\\PC{0,40}|[a-z0-9 ._-]{0,30}|[A-Z]{2,4}_[0-9]{0,6}",
            path in "[a-zA-Z0-9/._@%-]{0,40}",
        ) {
            let found = kind(&alt, &url(&path));
            prop_assert_eq!(found.is_none(), alt.trim().is_empty());
        }

        #[test]
        fn the_name_of_the_file_is_known_with_any_separators(
            words in prop::collection::vec("[a-z]{2,8}", 1..5),
            folder in "[a-z]{1,8}",
            size in prop::sample::select(vec!["", "-300x200", "-scaled", "@2x", "_640px"]),
        ) {
            let url = url(&format!("{folder}/{}{size}.jpg", words.join("-")));
            let alt = words.join(" ");
            prop_assert_eq!(kind(&alt, &url), Some(AltKind::FileName));
        }
    }
}
