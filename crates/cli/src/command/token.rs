//! `semel token`: makes, lists and revokes the tokens of callers.

use std::env::args_os;

use semel_config::Overrides;
use semel_core::{Clock, Result};
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_http::tokens::{self, TokenFile};
use semel_http::{Role, Tenant};
use semel_render::reports::tokens::TokenLine;
use serde::Serialize;

use crate::Exit;
use crate::args::Output;
use crate::args::token::{self as args, Kept, Token};
use crate::configuration::load;
use crate::output::{self, Plan};

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Token) -> Result<Exit> {
    match verb {
        Token::Create(arguments) => create(arguments),
        Token::List(arguments) => list(arguments),
        Token::Revoke(arguments) => revoke(arguments),
    }
}

fn create(arguments: &args::Create) -> Result<Exit> {
    let Some(file) = file(&arguments.kept) else {
        return Ok(Exit::Usage);
    };
    let (name, clock) = (&*arguments.name, SystemClock::new());
    let role = match arguments.role {
        args::Role::Viewer => Role::Viewer,
        args::Role::Operator => Role::Operator,
        args::Role::Admin => Role::Admin,
    };
    let tenant = arguments.tenant.as_deref().map(Tenant::new);
    let expires = arguments.expires.map(|after| clock.now().plus(after));
    let (token, secret) = if let Some(subject) = &arguments.subject {
        let token = tokens::Token::of_subject(name, role, tenant, expires, &clock, subject);
        (token, None)
    } else {
        let made = tokens::Token::new(name, role, tenant, expires, &clock, &SystemEntropy);
        (made.0, Some(made.1))
    };
    let secret = secret.as_ref().map(tokens::Secret::as_str);
    let made = Made {
        token: secret,
        listed: TokenLine::of(&token, clock.now()),
    };
    if !file.add(token.clone())? {
        output::note(format_args!(
            "there is a token `{name}` already; revoke it first, or choose another name"
        ));
        return Ok(Exit::No);
    }
    match arguments.format.output {
        Output::Table => match secret {
            Some(secret) => {
                output::data(secret).map_err(output::cannot_print)?;
                output::note(format_args!(
                    "this is the only time that the token is shown; its hash is kept in {}",
                    file.path().display()
                ));
            }
            None => output::note(format_args!(
                "made `{name}` for certificates of {}; there is no secret",
                token.subject().unwrap_or_default()
            )),
        },
        Output::Json | Output::Jsonl => output::object(&made)?,
    }
    Ok(Exit::Done)
}

fn list(arguments: &args::List) -> Result<Exit> {
    let Some(file) = file(&arguments.kept) else {
        return Ok(Exit::Usage);
    };
    let (tokens, now) = (file.read()?, SystemClock::new().now());
    let mut list = output::List::new(&arguments.listing);
    for token in tokens.iter() {
        if list.push(&TokenLine::of(token, now))?.is_break() {
            break;
        }
    }
    list.end()?;
    Ok(Exit::Done)
}

fn revoke(arguments: &args::Revoke) -> Result<Exit> {
    let Some(file) = file(&arguments.kept) else {
        return Ok(Exit::Usage);
    };
    let name = &*arguments.name;
    let tokens = file.read()?;
    let Some(token) = tokens.iter().find(|token| *token.name == *name) else {
        output::note(format_args!(
            "there is no token `{name}` in {}",
            file.path().display()
        ));
        return Ok(Exit::No);
    };
    let mut plan = Plan::new("revoke", "token", "tokens");
    plan.add(TokenLine::of(token, SystemClock::new().now()));
    plan.remark("whoever uses it is refused within two seconds");
    if let std::ops::ControlFlow::Break(exit) = plan.confirmed(arguments.confirm, args_os()) {
        return Ok(exit);
    }
    // Somebody else may have been faster; it is gone in any case.
    file.remove(name)?;
    output::note(format_args!("revoked `{name}`"));
    Ok(Exit::Done)
}

/// The file of tokens that the configuration names; nothing after faults were reported.
fn file(kept: &Kept) -> Option<TokenFile> {
    match load(kept.config.as_deref(), &Overrides::default()) {
        Ok((_, settings)) => Some(TokenFile::new(settings.tokens.file)),
        Err(faults) => {
            output::errors(faults);
            None
        }
    }
}

/// A token that was just made.
#[derive(Serialize)]
struct Made<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(flatten)]
    listed: TokenLine,
}
