//! `tls` of a source, an effect or dead letters: the encryption of a connection to a broker.

use semel_tls::Tls;

use super::fields::Fields;

pub(super) fn read(fields: &mut Fields<'_>) -> Tls {
    let Some(mut table) = fields.optional_sub("tls") else {
        return Tls::default();
    };
    let tls = Tls {
        ca: table.path("ca"),
        cert: table.path("cert"),
        key: table.path("key"),
        server_name: table.text("server_name").map(Into::into),
    };
    match (&tls.cert, &tls.key) {
        (Some(_), None) => table.missing("key"),
        (None, Some(_)) => table.missing("cert"),
        (Some(_), Some(_)) | (None, None) => {
            if let (Err(error), Some(node)) = (tls.check(), table.node("server_name")) {
                table.fault("server_name", node, error.to_string());
            }
        }
    }
    table.finish();
    tls
}
