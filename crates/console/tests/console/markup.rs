//! Pages as a browser reads them: their tags and attributes.

/// The names of tags that pages have.
const TAGS: [&str; 50] = [
    "bdi",
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "nav",
    "ul",
    "ol",
    "li",
    "div",
    "span",
    "form",
    "button",
    "main",
    "h1",
    "h2",
    "h3",
    "p",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "time",
    "code",
    "pre",
    "b",
    "section",
    "figure",
    "figcaption",
    "svg",
    "line",
    "path",
    "label",
    "input",
    "fieldset",
    "legend",
    "details",
    "summary",
    "!DOCTYPE",
];
/// The names of attributes that they have.
const ATTRIBUTES: [&str; 48] = [
    "formaction",
    "formnovalidate",
    "lang",
    "charset",
    "name",
    "content",
    "rel",
    "href",
    "type",
    "src",
    "defer",
    "class",
    "id",
    "aria-label",
    "aria-current",
    "aria-labelledby",
    "aria-describedby",
    "aria-hidden",
    "role",
    "hidden",
    "tabindex",
    "method",
    "action",
    "for",
    "value",
    "required",
    "autocomplete",
    "spellcheck",
    "placeholder",
    "maxlength",
    "scope",
    "open",
    "datetime",
    "viewBox",
    "preserveAspectRatio",
    "x1",
    "x2",
    "y1",
    "y2",
    "d",
    "html",
    "data-live",
    "data-state",
    "data-refresh",
    "data-selectable",
    "data-live-of",
    "data-aside-of",
    "data-member",
];

/// Reads a page as strictly as a tokenizer of HTML would, and fails at a tag or an attribute that no page has.
#[track_caller]
pub(crate) fn check(page: &str) {
    let (mut rest, mut scripts) = (page, 0);
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, is_end) = tag.strip_prefix('/').map_or((tag, false), |it| (it, true));
        let end = tag.find([' ', '>', '\n', '\t', '/']).expect("an end");
        let name = &tag[..end];
        assert!(
            !name.is_empty() && TAGS.contains(&name),
            "the tag {name:?} in {page}"
        );
        scripts += usize::from(name == "script" && !is_end);
        let mut inside = &tag[end..];
        loop {
            inside = inside.trim_start();
            if let Some(after) = inside.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = inside
                .find(['=', ' ', '>'])
                .expect("an end of an attribute");
            let attribute = &inside[..end];
            assert!(
                !attribute.is_empty() && ATTRIBUTES.contains(&attribute),
                "the attribute {attribute:?} in {page}"
            );
            inside = &inside[end..];
            if let Some(value) = inside.strip_prefix('=') {
                let value = value.strip_prefix('"').expect("quotes");
                let (value, after) = value.split_once('"').expect("the other quote");
                let is_address = matches!(attribute, "href" | "src" | "action");
                let is_own =
                    value.starts_with('/') && !value.starts_with("//") || value.starts_with('#');
                assert!(!is_address || is_own, "{attribute} leads to {value:?}");
                inside = after;
            }
        }
    }
    assert_eq!(scripts, 1, "the one of the head: {page}");
}
