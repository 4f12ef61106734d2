//! The style, the script and the icon.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};

/// A file that pages name.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    kind: &'static str,
    text: &'static str,
    hash: u64,
}

impl Asset {
    const fn new(path: &'static str, kind: &'static str, text: &'static str) -> Self {
        let hash = hash(text.as_bytes());
        Self {
            path,
            kind,
            text,
            hash,
        }
    }

    /// Its address, another one for each text, so that a browser may keep it.
    pub(crate) fn address(&self) -> String {
        format!("{}?{:016x}", self.path, self.hash)
    }

    pub(crate) fn answer(&self) -> Response {
        let headers: [(HeaderName, HeaderValue); 3] = [
            (CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (
                CACHE_CONTROL,
                HeaderValue::from_static("max-age=31536000, immutable"),
            ),
            (
                HeaderName::from_static("x-content-type-options"),
                HeaderValue::from_static("nosniff"),
            ),
        ];
        (headers, self.text).into_response()
    }
}

/// FNV-1a, which is enough to tell one release from another.
const fn hash(bytes: &[u8]) -> u64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

pub(crate) const STYLE: Asset = Asset::new(
    "/console/console.css",
    "text/css; charset=utf-8",
    include_str!("../assets/console.css"),
);
pub(crate) const SCRIPT: Asset = Asset::new(
    "/console/console.js",
    "text/javascript; charset=utf-8",
    include_str!("../assets/console.js"),
);
pub(crate) const ICON: Asset = Asset::new(
    "/console/icon.svg",
    "image/svg+xml",
    include_str!("../assets/icon.svg"),
);
