//! `semel explain CODE`: the page of the book behind a code.

use semel_core::Result;
use semel_render::book::{Page, codes};

use crate::args::{Explain, Listing};
use crate::output::List;
use crate::{Exit, output};

/// Prints the page of a code, or all codes.
pub(crate) fn explain(arguments: &Explain) -> Result<Exit> {
    let Some(typed) = &arguments.code else {
        return list(arguments);
    };
    match Page::find(typed) {
        Ok(page) => page.print(arguments.format.output).map(|()| Exit::Done),
        Err(suggested) => {
            output::note(format!("error: there is no code `{typed}`; {suggested}"));
            Ok(Exit::No)
        }
    }
}

fn list(arguments: &Explain) -> Result<Exit> {
    let mut list = List::new(&Listing {
        format: arguments.format,
        limit: None,
    });
    for line in codes() {
        if list.push(&line)?.is_break() {
            break;
        }
    }
    list.end()?;
    Ok(Exit::Done)
}
