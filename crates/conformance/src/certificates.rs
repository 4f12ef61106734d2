//! Certificates for tests of encrypted connections, made by the program `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// An authority of a test's own, with a folder that goes with it.
pub struct Authority {
    /// The certificate that a client trusts, in PEM.
    pub path: PathBuf,
    folder: PathBuf,
}

/// A certificate with its key, both in PEM.
pub struct Issued {
    /// The certificate, without the authority's.
    pub cert: PathBuf,
    /// The key, as PKCS #8.
    pub key: PathBuf,
}

impl Authority {
    /// Makes an authority.
    ///
    /// # Panics
    /// If there is no program `openssl`
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("semel-certificates-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let authority = Self {
            path: folder.join("ca.pem"),
            folder,
        };
        authority.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=semel test authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        ]);
        authority
    }

    /// A certificate for `127.0.0.1`, `localhost` and `name`, with these further options of `openssl x509`,
    /// such as `-days -1` for one that has expired.
    ///
    /// # Panics
    /// As [`Authority::new`]
    #[must_use]
    pub fn issue(&self, name: &str, options: &[&str]) -> Issued {
        self.issue_for(
            name,
            &format!("DNS:{name},DNS:localhost,IP:127.0.0.1"),
            options,
        )
    }

    /// A certificate for `alternatives`, as `openssl` spells them.
    ///
    /// # Panics
    /// As [`Authority::new`]
    #[must_use]
    pub fn issue_for(&self, name: &str, alternatives: &str, options: &[&str]) -> Issued {
        let [key, request, cert, more] =
            ["key", "csr", "pem", "ext"].map(|kind| format!("{name}.{kind}"));
        self.openssl(&[
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        let text = format!(
            "basicConstraints=critical,CA:FALSE\nsubjectAltName={alternatives}\n\
             extendedKeyUsage=serverAuth,clientAuth\n"
        );
        fs::write(self.folder.join(&more), text).expect("a file");
        let mut sign = vec![
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            &more,
            "-out",
            &cert,
        ];
        let usual = ["-days", "2"];
        sign.extend(if options.is_empty() {
            &usual[..]
        } else {
            options
        });
        self.openssl(&sign);
        Issued {
            cert: self.folder.join(cert),
            key: self.folder.join(key),
        }
    }

    /// Both of `issued` in one file, the key first, as Java reads it.
    ///
    /// # Panics
    /// As [`Authority::new`]
    #[must_use]
    pub fn joined(&self, issued: &Issued) -> PathBuf {
        let read = |path: &Path| fs::read_to_string(path).expect("a file");
        let path = issued.cert.with_extension("both");
        fs::write(&path, read(&issued.key) + &read(&issued.cert)).expect("a file");
        path
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl")
            .current_dir(&self.folder)
            .args(arguments)
            .output()
            .expect("the program openssl");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
