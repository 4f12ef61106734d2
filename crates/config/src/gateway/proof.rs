//! The proof of a tenant: certificates of clients, and tokens that an issuer has signed.

use std::path::PathBuf;

use crate::fields::Fields;
use crate::listener::Certificate;

/// The proof by which a client is known as one of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantProof {
    /// The common name in the certificate that it shows.
    Certificate,
    /// This claim of the JWT that it sends as its bearer token.
    Jwt(Box<str>),
}

impl TenantProof {
    /// Says what a gateway lacks for it, and where that is set; nothing if it has it.
    pub(super) fn lacks(
        &self,
        tls: Option<&Certificate>,
        jwt: Option<&JwtSettings>,
    ) -> Option<&'static str> {
        let asks_clients = tls.is_some_and(|it| it.client_ca.is_some());
        match self {
            Self::Certificate if !asks_clients => Some(
                "`mtls` takes the tenant from the certificate of a client; name the authority that vouches for clients in \
                 `[gateway.tls] client_ca`",
            ),
            Self::Jwt(_) if jwt.is_none() => Some(
                "`jwt:` takes the tenant from a token whose signature is checked; name the keys in `[gateway.jwt] keys`",
            ),
            Self::Certificate | Self::Jwt(_) => None,
        }
    }
}

/// The proof of JWTs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The file with the set of keys (JWKS) that one of is to have signed them.
    pub keys: PathBuf,
    /// The issuer that they must name, if it matters.
    pub issuer: Option<Box<str>>,
    /// The audience that they must be for, if it matters.
    pub audience: Option<Box<str>>,
}

/// Reads how JWTs are proved; nothing if it cannot be read, and none if they are not.
#[expect(clippy::option_option, reason = "a faulty one is no absent one")]
pub(super) fn jwt(table: &mut Fields<'_>) -> Option<Option<JwtSettings>> {
    let mut jwt = table.optional_sub("jwt")?;
    let keys = jwt.path("keys");
    let mut text = |name| jwt.text(name).map(Box::from);
    let (issuer, audience) = (text("issuer"), text("audience"));
    if keys.is_none() && (issuer.is_some() || audience.is_some()) {
        jwt.missing("keys");
    }
    jwt.finish();
    Some(keys.map(|keys| JwtSettings {
        keys,
        issuer,
        audience,
    }))
}
