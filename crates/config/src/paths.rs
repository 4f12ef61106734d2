//! Relative paths. They start from the folder of the file that names them, or from the current folder if a flag
//! or a variable names them.

use std::path::{Path, PathBuf};

use super::fields::Fields;
use super::node::{Node, Origin, Value};

impl Origin {
    /// Returns the folder of the file in which it was written; nothing if that is the current folder.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::File { name, .. } => folder(Path::new(&**name)),
            Self::Named(_) | Self::Default => None,
        }
    }
}

/// Returns the folder of a file, unless it is the current one.
pub(super) fn folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|folder| *folder != Path::new(""))
}

/// Returns the path from the current folder to `path`, which was written in a file of `folder`.
pub(super) fn from(folder: Option<&Path>, path: &Path) -> PathBuf {
    match folder {
        // Drops the component that means the folder itself.
        Some(folder) if path.is_relative() => folder.join(path).components().collect(),
        Some(_) | None => path.to_owned(),
    }
}

/// Does the same for a program: one without a slash is looked for in `PATH`.
pub(super) fn program(folder: Option<&Path>, name: &str) -> String {
    match folder {
        Some(_) if name.contains('/') => text(&from(folder, Path::new(name))),
        Some(_) | None => name.to_owned(),
    }
}

/// Returns the url of a server whose query names files by their paths from the current folder.
pub(super) fn in_query(folder: Option<&Path>, url: &str) -> String {
    let (Some(folder), Some((place, query))) = (folder, url.split_once('?')) else {
        return url.to_owned();
    };
    let (query, fragment) = query
        .split_once('#')
        .map_or((query, None), |(query, fragment)| (query, Some(fragment)));
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, file)) if FILES.contains(&name) && is_relative(file) => {
            // The file name keeps its own escapes.
            let file = file.strip_prefix("./").unwrap_or(file);
            format!("{name}={}/{file}", escaped(&text(folder)))
        }
        Some(_) | None => pair.to_owned(),
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    match fragment {
        Some(fragment) => format!("{place}?{query}#{fragment}"),
        None => format!("{place}?{query}"),
    }
}

fn is_relative(file: &str) -> bool {
    let is_absolute = file.starts_with('/') || file.to_ascii_lowercase().starts_with("%2f");
    // `system` means the certificates of the system, and no file.
    !(file.is_empty() || is_absolute || file == "system")
}

fn escaped(path: &str) -> String {
    use std::fmt::Write;
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Fields<'_> {
    /// Takes a path, as seen from the current folder.
    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        let text = self.text(name)?;
        let node = self.node(name)?;
        let path = from(node.origin.folder(), Path::new(text));
        self.show_as(name, node, &path.to_string_lossy());
        Some(path)
    }

    /// Takes such a path, which must be there.
    pub(super) fn required_path(&mut self, name: &'static str) -> Option<PathBuf> {
        if !self.is_written(name) {
            self.missing(name);
        }
        self.path(name)
    }

    /// Takes a command, whose program may be a path.
    pub(super) fn command(&mut self) -> Option<Vec<String>> {
        let mut command = self.one_or_many("command", str::parse::<String>)?;
        let node = self.node("command")?;
        let first = match &node.value {
            Value::List(items) => items.first()?,
            Value::Text(_)
            | Value::Integer(_)
            | Value::Boolean(_)
            | Value::Table(_)
            | Value::Other(_) => node,
        };
        let program = program(first.origin.folder(), command.first()?);
        if command.first() != Some(&program) {
            let mut shown = node.clone();
            if let Value::List(items) = &mut shown.value
                && let Some(first) = items.first_mut()
            {
                first.value = Value::Text(program.clone());
            }
            self.found.setting(&self.path, "command", Some(&shown));
            command[0] = program;
        }
        Some(command)
    }

    /// Shows a setting with its resolved value.
    pub(super) fn show_as(&self, name: &str, node: &Node, text: &str) {
        if node.value.as_text() == Some(text) {
            return;
        }
        let shown = Node {
            value: Value::Text(text.to_owned()),
            origin: node.origin.clone(),
        };
        self.found.setting(&self.path, name, Some(&shown));
    }
}

/// Parameters of stores whose values are files.
const FILES: [&str; 3] = ["ca", "ssl-ca", "sslrootcert"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_relative_to_the_file_that_names_it() {
        let origin = |name: &str| Origin::File {
            name: name.into(),
            line: 1,
        };
        let resolved = |origin: &Origin, path: &str| from(origin.folder(), Path::new(path));
        for (file, path, expected) in [
            ("semel.toml", "./data", "./data"),
            ("/etc/semel/semel.toml", "./data", "/etc/semel/data"),
            ("/etc/semel/semel.toml", "/data", "/data"),
            ("conf/semel.toml", "data", "conf/data"),
            ("../semel.toml", "data", "../data"),
        ] {
            assert_eq!(resolved(&origin(file), path), Path::new(expected), "{file}");
        }
        let named = Origin::Named("SEMEL__STORE__URL".into());
        assert_eq!(resolved(&named, "./data"), Path::new("./data"));
    }

    #[test]
    fn a_program_is_a_path_if_it_has_a_slash() {
        let folder = Some(Path::new("/etc/semel"));
        assert_eq!(program(folder, "python3"), "python3");
        assert_eq!(program(folder, "./work.py"), "/etc/semel/work.py");
        assert_eq!(program(folder, "/bin/sh"), "/bin/sh");
        assert_eq!(program(None, "./work.py"), "./work.py");
    }

    #[test]
    fn files_in_the_url_of_a_store_are_relative_to_its_file_too() {
        let folder = Some(Path::new("/etc/my shop"));
        for (url, expected) in [
            (
                "postgres://me@db/shop?sslrootcert=ca.pem&schema=a",
                "postgres://me@db/shop?sslrootcert=/etc/my%20shop/ca.pem&schema=a",
            ),
            (
                "rediss://db?ca=./ca.pem#x",
                "rediss://db?ca=/etc/my%20shop/ca.pem#x",
            ),
            (
                "mysql://db/x?ssl-ca=%2Fca.pem",
                "mysql://db/x?ssl-ca=%2Fca.pem",
            ),
            ("mysql://db/x?ssl-ca=/ca.pem", "mysql://db/x?ssl-ca=/ca.pem"),
            (
                "postgres://db/x?sslrootcert=system",
                "postgres://db/x?sslrootcert=system",
            ),
            ("postgres://db/x", "postgres://db/x"),
        ] {
            assert_eq!(in_query(folder, url), expected);
            assert_eq!(in_query(None, url), url);
        }
    }
}
