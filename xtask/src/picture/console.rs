//! The pictures of the console in the book: a test takes them in Chromium, from a worker that it runs.

use std::path::Path;

use crate::builds::tested;
use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

/// Takes them anew, which takes a few minutes, and puts them beside the page of the book.
pub(super) fn take(workspace: &Workspace) -> Result {
    let folder = workspace.target.join("pictures");
    // What an earlier run has left is not of this one.
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let mut command = workspace.cargo(["test"]);
    command
        .args(tested(workspace))
        .args(["--test", "semel", "--", "--exact", TEST])
        .env("SEMEL_TEST_PICTURES", &folder);
    if !command.status()?.success() {
        return Err(Failure::no("the console was not pictured"));
    }
    let mut count = 0;
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|it| it == "webp") {
            std::fs::copy(folder.join(&name), workspace.root.join(BOOK).join(&name))?;
            println!("{BOOK}/{}", name.display());
            count += 1;
        }
    }
    // A test of another name is none, which cargo takes for a success.
    if count == 0 {
        return Err(Failure::no("no test has pictured the console"));
    }
    Ok(())
}

const TEST: &str = "admin::browser::pictures::each_page_can_be_pictured";
const BOOK: &str = "docs/book/src/operations";
