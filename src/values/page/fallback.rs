//! Why a page cannot be read in one pass without a tree.

/// What only a tree can decide, or a limit that only the tree measures exactly (see
/// `web::extract`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// A NUL character, which each part of the markup treats differently.
    Nul,
    /// A tag with more attributes than the tree keeps.
    Attributes,
    /// Elements nested too deep.
    Nesting,
    /// Too many nodes.
    Nodes,
    /// Too many formatting elements within each other.
    Formatting,
    /// A formatting element ends around a block that is still open, so the tree builder
    /// moves what was read before.
    Misnested,
    /// Text directly within a table, which is moved before the table.
    TableText,
    /// An element directly within a table, which is moved before the table.
    TableMarkup,
    /// A second `html` tag that states a language.
    SecondHtml,
    /// A `frameset` after the body has begun, which may replace the body.
    Frameset,
    /// A script within a comment within a script.
    ScriptInScript,
    /// HTML within `svg` or `math`, or an end tag there of an element around it.
    Foreign,
    /// A template with content that decides where the template ends.
    Template,
    /// A table within a paragraph, where an unusual document type decides about quirks.
    Doctype,
    /// `selectedcontent`, into which an option is copied.
    SelectedContent,
}

impl Fallback {
    /// The name in the log, in metrics and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Fallback::Nul => "nul",
            Fallback::Attributes => "attributes",
            Fallback::Nesting => "nesting",
            Fallback::Nodes => "nodes",
            Fallback::Formatting => "formatting",
            Fallback::Misnested => "misnested",
            Fallback::TableText => "table_text",
            Fallback::TableMarkup => "table_markup",
            Fallback::SecondHtml => "second_html",
            Fallback::Frameset => "frameset",
            Fallback::ScriptInScript => "script_in_script",
            Fallback::Foreign => "foreign",
            Fallback::Template => "template",
            Fallback::Doctype => "doctype",
            Fallback::SelectedContent => "selected_content",
        }
    }
}
