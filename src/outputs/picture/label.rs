//! Compares the labels of a file with its real format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Extensions of image formats that are not supported.
const OTHER_EXTENSIONS: [&str; 11] = [
    "svg", "svgz", "avif", "heic", "heif", "jxl", "jp2", "psd", "tga", "xcf", "eps",
];

/// The wrong labels of a file, as given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mislabelled {
    /// The media type that the server sent; `None` if it is right or not that of an image.
    pub content_type: Option<String>,
    /// The extension of the address; `None` if it is right or not that of an image.
    pub extension: Option<String>,
}

/// Compares the media type and the path of the address with the format of the bytes;
/// `None` if neither names a different image format.
pub fn mislabelled(format: &str, content_type: Option<&str>, path: &str) -> Option<Mislabelled> {
    let media = content_type.map(|c| {
        let essence = c.split(';').next().unwrap_or_default().trim();
        essence.to_ascii_lowercase()
    });
    let content_type = media.filter(|media| {
        let subtype = media.strip_prefix("image/").filter(|s| *s != "*");
        subtype.is_some_and(|subtype| format_of_subtype(subtype) != Some(format))
    });
    let file = path.rsplit('/').next().unwrap_or_default();
    let extension = file.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    let extension = extension.filter(|e| match format_of_extension(e) {
        Some(named) => named != format,
        None => OTHER_EXTENSIONS.contains(&e.as_str()),
    });
    let wrong = Mislabelled {
        content_type,
        extension,
    };
    (wrong != Mislabelled::default()).then_some(wrong)
}

fn format_of_subtype(subtype: &str) -> Option<&'static str> {
    Some(match subtype {
        "jpeg" | "jpg" | "pjpeg" => "jpeg",
        "png" | "x-png" | "apng" | "vnd.mozilla.apng" => "png",
        "gif" => "gif",
        "webp" => "webp",
        "bmp" | "x-bmp" | "x-ms-bmp" | "x-windows-bmp" => "bmp",
        "tiff" | "tif" => "tiff",
        "x-icon" | "vnd.microsoft.icon" | "ico" => "ico",
        _ => return None,
    })
}

fn format_of_extension(extension: &str) -> Option<&'static str> {
    let formats = ["jpeg", "png", "gif", "webp", "bmp", "tiff", "ico"];
    let usual = |format: &&str| super::extensions(format).contains(&extension);
    match extension {
        "jfif" | "pjpeg" | "pjp" => Some("jpeg"),
        "apng" => Some("png"),
        _ => formats.into_iter().find(usual),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_other_image_formats_are_wrong() {
        for (format, content_type, path) in [
            ("jpeg", Some("image/jpeg"), "/a.jpg"),
            ("jpeg", Some("image/jpg; charset=x"), "/a.JFIF"),
            ("png", Some("IMAGE/PNG "), "/a.php"),
            ("png", Some("application/octet-stream"), "/a"),
            ("gif", Some("image/*"), "/a.png/b"),
            ("ico", None, "/favicon.ico"),
        ] {
            assert_eq!(mislabelled(format, content_type, path), None, "{path}");
        }
        let wrong = |content_type: Option<&str>, extension: Option<&str>| {
            Some(Mislabelled {
                content_type: content_type.map(str::to_owned),
                extension: extension.map(str::to_owned),
            })
        };
        assert_eq!(
            mislabelled("webp", Some("image/jpeg"), "/a.JPG"),
            wrong(Some("image/jpeg"), Some("jpg"))
        );
        assert_eq!(
            mislabelled("png", Some("image/svg+xml"), "/a.png"),
            wrong(Some("image/svg+xml"), None)
        );
        assert_eq!(
            mislabelled("png", Some("image/png"), "/a.b.avif"),
            wrong(None, Some("avif"))
        );
    }
}
