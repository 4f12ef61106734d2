//! Masks command lines before they are repeated: secrets of their URLs become `***`.

use std::ffi::OsStr;

use semel_config::masked;

/// Returns `text` with the words of a command line in it as [`masked`] shows them.
pub(crate) fn masked_within<W: AsRef<OsStr>>(
    text: &str,
    typed: impl IntoIterator<Item = W>,
) -> String {
    let words = typed.into_iter().filter_map(|word| {
        let word = word.as_ref().to_str()?.to_owned();
        // An option may stand before the URL.
        let option = word.strip_prefix("--");
        let url = option.and_then(|option| Some(option.split_once('=')?.1));
        let url = url.unwrap_or(&word);
        let shown = masked(url);
        (shown != url).then(|| (url.to_owned(), shown))
    });
    words.fold(text.to_owned(), |text, (url, shown)| {
        text.replace(&url, &shown)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_masked_wherever_it_is_repeated() {
        let typed = [
            "semel",
            "--store=redis://:geheim@h/0",
            "mysql://a:geheim@h/x",
        ];
        let said = "wrong: 'redis://:geheim@h/0', or 'mysql://a:geheim@h/x'?";
        assert_eq!(
            masked_within(said, typed),
            "wrong: 'redis://:***@h/0', or 'mysql://a:***@h/x'?"
        );
    }
}
