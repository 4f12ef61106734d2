//! The account of a process that a test waits for in vain: its signals, its threads, its children and its
//! sockets.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// Describes the process of this id, as far as the system tells.
pub(super) fn of(process: u32) -> String {
    let place = format!("/proc/{process}");
    let place = Path::new(&place);
    let mut text = String::new();
    for line in file(place, "status").lines() {
        let (name, _) = line.split_once(':').unwrap_or_default();
        if OF_STATUS.contains(&name) {
            let _ = writeln!(text, "{line}");
        }
    }
    for thread in entries(&place.join("task")) {
        let thread = place.join("task").join(thread);
        let stat = file(&thread, "stat");
        // The state follows the name, which is in brackets; the times are eleven places behind it.
        let (_, stat) = stat.rsplit_once(") ").unwrap_or_default();
        let stat: Vec<_> = stat.split(' ').collect();
        let at = |place: usize| stat.get(place).copied().unwrap_or("?");
        let _ = writeln!(
            text,
            "thread {}: {} ticks {}+{} in {} {}",
            file(&thread, "comm").trim(),
            at(0),
            at(11),
            at(12),
            file(&thread, "wchan"),
            file(&thread, "syscall").trim(),
        );
        for child in file(&thread, "children").split_whitespace() {
            let name = file(&Path::new("/proc").join(child), "cmdline").replace('\0', " ");
            let _ = writeln!(text, "child {child}: {name}");
        }
    }
    let mut sockets = BTreeSet::new();
    for number in entries(&place.join("fd")) {
        let Ok(target) = read_link(place.join("fd").join(&number)) else {
            continue;
        };
        let target = target.to_string_lossy();
        let _ = writeln!(text, "file {number}: {target}");
        let socket = target.strip_prefix("socket:[");
        sockets.extend(
            socket
                .and_then(|it| it.strip_suffix(']'))
                .map(str::to_owned),
        );
    }
    for table in ["net/tcp", "net/tcp6"] {
        for line in file(place, table).lines() {
            // Addresses, state, queues, and the number of the socket in the tenth column.
            let columns: Vec<_> = line.split_whitespace().collect();
            if columns.get(9).is_some_and(|it| sockets.contains(*it)) {
                let _ = writeln!(text, "socket {}: {}", columns[9], columns[1..5].join(" "));
            }
        }
    }
    text
}

/// The text of a file; empty if there is none, for what it tells of may be gone.
fn file(folder: &Path, name: &str) -> String {
    read_to_string(folder.join(name)).unwrap_or_default()
}

/// The names in a folder that are numbers, in order.
fn entries(folder: &Path) -> Vec<String> {
    let names = read_dir(folder).into_iter().flatten().map_while(Result::ok);
    let names = names.filter_map(|it| it.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|it| it.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.iter().map(u32::to_string).collect()
}

/// The lines about the whole process: its state, and the signals that wait, are blocked and are caught.
const OF_STATUS: [&str; 8] = [
    "Name", "State", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt",
];
