//! Finds the process that listens at an address, if `/proc` shows it: on Linux, for processes that this user
//! may look at.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The process that has a socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: u32,
    name: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

impl Owner {
    /// Finds the process that keeps other processes from listening at `address`.
    pub(crate) fn of(address: SocketAddr) -> Option<Self> {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let sockets = tables.iter().flat_map(|table| {
            let table = fs::read_to_string(table).unwrap_or_default();
            listeners(&table, address)
        });
        let links: Vec<_> = sockets.map(|inode| format!("socket:[{inode}]")).collect();
        if links.is_empty() {
            return None;
        }
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut processes =
            processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        processes
            .find(|pid| has_one_of(*pid, &links))
            .map(|pid| Self {
                pid,
                name: name(pid),
            })
    }
}

/// The inodes of listening sockets in a table of `/proc/net` that block `address`.
fn listeners(table: &str, address: SocketAddr) -> Vec<u64> {
    let rows = table.lines().skip(1).filter_map(|row| {
        let mut columns = row.split_ascii_whitespace();
        let (at, state) = (columns.nth(1)?, columns.nth(1)?);
        let inode = columns.nth(5)?.parse().ok()?;
        let (ip, port) = local(at)?;
        let meets = ip == address.ip() || ip.is_unspecified() || address.ip().is_unspecified();
        (state == LISTENS && port == address.port() && meets).then_some(inode)
    });
    rows.collect()
}

/// Reads an address as the kernel writes it: words of 32 bits in the byte order of this machine, and the port.
fn local(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |from: usize| {
        let word = u32::from_str_radix(ip.get(from..from + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&words.concat());
            let ip = Ipv6Addr::from(bytes);
            ip.to_ipv4_mapped().map_or(ip.into(), IpAddr::from)
        }
        _ => return None,
    };
    Some((ip, port))
}

fn has_one_of(pid: u32, links: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        // The process belongs to another user, or is gone by now.
        return false;
    };
    files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|link| links.iter().any(|it| link.as_os_str() == it.as_str()))
}

fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = name.trim().replace(char::is_control, " ");
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// The state of a socket that listens.
const LISTENS: &str = "0A";

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_that_listens_is_found() {
        for host in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else {
                // This machine has no IPv6.
                assert_eq!(host, "[::1]:0");
                continue;
            };
            let address = listener.local_addr().expect("an address");
            let owner = Owner::of(address).expect("this process");
            assert_eq!(owner.pid, std::process::id(), "{owner:?}");
            let told = owner.to_string();
            assert!(
                told.starts_with("process ") && told.ends_with(')'),
                "{told}"
            );
            drop(listener);
            assert_eq!(Owner::of(address), None, "nobody listens any more");
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_tables_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1EE0 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
            1: 0100007F:1EE0 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n\
            2: 00000000:1EE1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n";
        let at = |address: &str| listeners(table, address.parse().expect("an address"));
        assert_eq!(at("127.0.0.1:7904"), [4711], "not its connections");
        assert_eq!(at("0.0.0.0:7904"), [4711]);
        assert_eq!(at("127.0.0.2:7904"), [0_u64; 0]);
        assert_eq!(at("127.0.0.1:7905"), [4713], "one that listens everywhere");
        let six = "0: 00000000000000000000000001000000:1EE0 0:0 0A 0:0 0:0 0 0 0 4714 1";
        assert_eq!(
            listeners(&format!("\n{six}"), "[::1]:7904".parse().expect("it")),
            [4714]
        );
        assert_eq!(
            listeners("\nnonsense\n", "[::1]:1".parse().expect("it")),
            [0_u64; 0]
        );
    }
}
