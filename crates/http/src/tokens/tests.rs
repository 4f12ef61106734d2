use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_conformance::TestClock;
use semel_core::ErrorKind;
use tempfile::TempDir;

use super::*;

/// Entropy that never repeats itself.
struct Counting(Mutex<u8>);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let mut count = self.0.lock().expect("no panic");
        *count += 1;
        bytes.fill(*count);
    }
}

struct Place {
    folder: TempDir,
    file: TokenFile,
    clock: TestClock,
    entropy: Counting,
}

fn place() -> Place {
    let folder = TempDir::new().expect("a folder");
    let file = TokenFile::new(folder.path().join("tokens.json"));
    Place {
        folder,
        file,
        clock: TestClock::new(),
        entropy: Counting(Mutex::new(0)),
    }
}

impl Place {
    fn make(&self, name: &str, expires: Option<Timestamp>) -> Secret {
        let tenant = Some(Tenant::new("acme"));
        let made = Token::new(
            name,
            Role::Operator,
            tenant,
            expires,
            &self.clock,
            &self.entropy,
        );
        let (token, secret) = made;
        assert!(self.file.add(token).expect("written"));
        secret
    }

    fn tokens(&self) -> Tokens {
        self.file.read().expect("sound")
    }
}

#[test]
fn a_token_is_known_by_its_secret_until_it_is_revoked() {
    let it = place();
    assert_eq!(it.tokens().count(), 0, "no file, no tokens");
    let (one, two) = (it.make("one", None), it.make("two", None));
    assert_ne!(one.as_str(), two.as_str());
    assert_eq!(one.as_str().len(), PREFIX.len() + 2 * SECRET_BYTES);
    let now = it.clock.now();
    let Shown::Known(caller) = it.tokens().find(one.as_str(), now) else {
        panic!("the token is known");
    };
    assert_eq!((&*caller.name, caller.role), ("one", Role::Operator));
    assert_eq!(caller.tenant, Some(Tenant::new("acme")));
    for wrong in [
        "",
        "semel_",
        &one.as_str()[1..],
        &format!("{}0", one.as_str()),
    ] {
        assert_eq!(it.tokens().find(wrong, now), Shown::Unknown, "{wrong}");
    }
    assert!(it.file.remove("one").expect("written"));
    assert!(
        !it.file.remove("one").expect("read"),
        "there is none any more"
    );
    assert_eq!(it.tokens().find(one.as_str(), now), Shown::Unknown);
    assert!(matches!(
        it.tokens().find(two.as_str(), now),
        Shown::Known(_)
    ));
}

#[test]
fn the_file_has_no_secret_and_is_for_its_owner_alone() {
    let it = place();
    let secret = it.make("one", None);
    let text = fs::read_to_string(it.file.path()).expect("a file");
    let digits = secret.as_str().trim_start_matches(PREFIX);
    assert!(!text.contains(digits), "{text}");
    let mode = fs::metadata(it.file.path())
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let left: Vec<_> = fs::read_dir(it.folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "nothing is left beside it: {left:?}");
}

#[test]
fn a_name_is_given_once() {
    let it = place();
    let first = it.make("one", None);
    let again = Token::new("one", Role::Admin, None, None, &it.clock, &it.entropy);
    assert!(!it.file.add(again.0).expect("read"));
    assert_eq!(it.tokens().count(), 1);
    assert!(matches!(
        it.tokens().find(first.as_str(), it.clock.now()),
        Shown::Known(_)
    ));
}

#[test]
fn a_token_is_refused_from_the_moment_at_which_it_expires() {
    let it = place();
    let end = it.clock.now().plus(Duration::from_secs(60));
    let secret = it.make("one", Some(end));
    let just_before = end.minus(Duration::from_millis(1));
    assert!(matches!(
        it.tokens().find(secret.as_str(), just_before),
        Shown::Known(_)
    ));
    assert_eq!(it.tokens().find(secret.as_str(), end), Shown::Expired);
}

#[test]
fn a_link_to_the_file_stays_one() {
    let it = place();
    let real = it.folder.path().join("real.json");
    fs::write(&real, "").expect("written");
    std::os::unix::fs::symlink(&real, it.file.path()).expect("a link");
    it.make("one", None);
    let kind = fs::symlink_metadata(it.file.path())
        .expect("it")
        .file_type();
    assert!(kind.is_symlink());
    assert_eq!(TokenFile::new(real).read().expect("sound").count(), 1);
}

#[test]
fn a_changed_file_keeps_its_owner_its_group_and_its_mode() {
    let it = place();
    it.make("one", None);
    let shared = fs::Permissions::from_mode(0o640);
    fs::set_permissions(it.file.path(), shared).expect("changed");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(it.file.path(), Some(4_711), Some(4_712)).expect("given away");
    }
    let before = fs::metadata(it.file.path()).expect("a file");
    it.make("two", None);
    it.file.remove("one").expect("written");
    let after = fs::metadata(it.file.path()).expect("a file");
    assert_eq!(after.mode() & 0o777, 0o640);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
}

#[test]
fn a_damaged_file_is_told_and_left_alone() {
    let it = place();
    it.make("one", None);
    let sound = fs::read_to_string(it.file.path()).expect("a file");
    let entry =
        &sound[sound.find("    {").expect("an entry")..sound.rfind("  ]").expect("its end")];
    let twice = sound.replace(entry, &format!("{},\n{entry}", entry.trim_end()));
    for (damaged, why) in [
        (sound[..sound.len() / 2].to_owned(), "is damaged"),
        (
            sound.replace("\"version\": 1", "\"version\": 2"),
            "has version 2",
        ),
        (sound.replace("operator", "root"), "is damaged"),
        (
            sound.replace("\"blake3\": \"", "\"blake3\": \"x"),
            "token `one`",
        ),
        (sound.replace("\"created\"", "\"made\""), "is damaged"),
        (
            sound.replace("\"created\": \"", "\"created\": \"yester"),
            "token `one`",
        ),
        (twice, "two tokens are called `one`"),
    ] {
        fs::write(it.file.path(), &damaged).expect("written");
        let error = it.file.read().expect_err(why);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(why), "{error}: {damaged}");
        let (token, _) = Token::new("two", Role::Viewer, None, None, &it.clock, &it.entropy);
        it.file.add(token).expect_err("nothing is added to it");
        let after = fs::read_to_string(it.file.path()).expect("a file");
        assert_eq!(after, damaged);
    }
}

#[test]
fn tokens_that_are_made_at_once_are_all_kept() {
    let it = place();
    std::thread::scope(|scope| {
        for at in 0..8 {
            let it = &it;
            scope.spawn(move || it.make(&format!("token-{at}"), None));
        }
    });
    assert_eq!(it.tokens().count(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_noticed_and_damage_leaves_what_was_known() {
    let it = place();
    let (known, tokens) = tokio::sync::watch::channel(Arc::new(Tokens::default()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let watching = tokio::spawn(watch(it.file.clone(), known, move |notice| {
        let text = match notice {
            TokenNotice::Unreadable(error) => error.to_string(),
            TokenNotice::Changed { count } => count.to_string(),
        };
        telling.lock().expect("no panic").push(text);
    }));
    let looks = async || tokio::time::sleep(Duration::from_millis(2_500)).await;
    let secret = it.make("one", None);
    looks().await;
    let now = it.clock.now();
    assert!(matches!(
        tokens.borrow().find(secret.as_str(), now),
        Shown::Known(_)
    ));
    fs::write(it.file.path(), "{").expect("written");
    looks().await;
    assert_eq!(tokens.borrow().count(), 1, "the last good ones");
    fs::remove_file(it.file.path()).expect("removed");
    looks().await;
    assert_eq!(tokens.borrow().count(), 0);
    watching.abort();
    let told = told.lock().expect("no panic").clone();
    let [first, damage, gone] = &told[..] else {
        panic!("each change is told once: {told:?}");
    };
    assert_eq!((&**first, &**gone), ("1", "0"));
    assert!(damage.contains("is damaged"), "{damage}");
}
