//! Pictures of each page: as `cargo xtask picture` puts them into the book, and at more widths to look at.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Desk, PAGES};
use crate::claims::server::{Request, ask};
use crate::site::{lines, wait_within};

/// The pages that the book shows, by the names of their pictures.
const OF_THE_BOOK: [(&str, &str); 8] = [
    ("overview", "/"),
    ("key", "/key?key=doubt-1"),
    ("in-doubt", "/in-doubt"),
    ("dead-letters", "/dead-letters"),
    ("quarantine", "/quarantine"),
    ("window", "/window"),
    ("store", "/store"),
    ("audit", "/audit"),
];

/// Takes them in the light and in the dark. With a folder in `SEMEL_TEST_PICTURES`, they go there, with plots of some
/// minutes, and pictures of all pages at three widths beside them.
#[test]
fn each_page_can_be_pictured() {
    let mut desk = Desk::new();
    let wanted = std::env::var_os("SEMEL_TEST_PICTURES").filter(|it| !it.is_empty());
    let folder = wanted
        .as_ref()
        .map_or_else(|| desk.served.site.path("."), PathBuf::from);
    let is_absolute = folder.is_absolute();
    assert!(
        is_absolute,
        "SEMEL_TEST_PICTURES: {folder:?} would be a folder of the sources"
    );
    if wanted.is_some() {
        plots(&mut desk);
    }
    for (name, path) in OF_THE_BOOK {
        for is_dark in [false, true] {
            desk.browser.looks(1_280, 800, is_dark);
            desk.open(path);
            without_folder(&desk);
            let picture = desk.browser.picture("webp");
            assert!(picture.starts_with(b"RIFF"), "{name}");
            assert!(
                picture.len() <= MOST_BYTES,
                "{name}: {} bytes",
                picture.len()
            );
            let dark = if is_dark { "-dark" } else { "" };
            write(&folder, &format!("console-{name}{dark}.webp"), &picture);
        }
    }
    if wanted.is_some() {
        to_look_at(&desk, &folder);
    }
}

/// Leaves out the folder of the test where a page names it: a picture is one of a worker anywhere.
fn without_folder(desk: &Desk) {
    let folder = desk.served.site.path("").display().to_string();
    let is_left = desk.browser.run(&format!(
        "const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
         while (texts.nextNode()) {{
             const text = texts.currentNode;
             text.data = text.data.replaceAll({folder:?}, '');
         }}
         return document.body.innerText.includes({folder:?});"
    ));
    assert_eq!(is_left, false);
}

/// Takes a picture of each page, at three widths, in the light and in the dark.
fn to_look_at(desk: &Desk, folder: &Path) {
    for (at, (path, _)) in PAGES.into_iter().enumerate() {
        for (width, height) in [(360, 800), (1_280, 900), (2_560, 1_440)] {
            for is_dark in [false, true] {
                desk.browser.looks(width, height, is_dark);
                desk.open(path);
                let dark = if is_dark { "dark" } else { "light" };
                let picture = desk.browser.picture("png");
                write(folder, &format!("{at}-{width}-{dark}.png"), &picture);
            }
        }
    }
}

/// Sends messages, some of them twice, until there is something to plot.
fn plots(desk: &mut Desk) {
    let port = desk.served.port;
    let mut sent = 0;
    let (_, input) = &mut desk.served.running;
    wait_within(MINUTES, "plots", || {
        std::thread::sleep(PAUSE);
        let new = sent..sent + 3 + sent % 7;
        sent = new.end;
        let again = new.clone().step_by(3);
        let text = lines(new.chain(again), |id| format!("{{\"id\":\"order-{id}\"}}"));
        input.write_all(text.as_bytes()).expect("messages");
        let path = "/v1/series?family=semel_decisions_total";
        let told = ask(port, &Request::get(path)).body;
        let points = told["items"][0]["values"].as_array();
        let known = points.map_or(0, |it| it.iter().filter(|it| !it.is_null()).count());
        known >= POINTS
    });
}

fn write(folder: &Path, name: &str, picture: &[u8]) {
    std::fs::write(folder.join(name), picture).expect("written");
}

const MOST_BYTES: usize = 150_000;
/// The points of a plot, of which there is one each 15 seconds.
const POINTS: usize = 12;
const MINUTES: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(200);
