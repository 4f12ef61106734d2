use std::ffi::OsStr;

use super::*;
use crate::power::dice::Dice;

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

fn file(disk: &mut Disk, named: &str) -> u64 {
    let made = disk.make(ROOT, name(named), false, 0o600, 0, 0);
    made.expect("a new file")
}

fn after(disk: &Disk, way: Way) -> Disk {
    disk.survivor(way, way, &mut Dice::new(1)).0
}

fn bytes(disk: &Disk, named: &str) -> Option<Vec<u8>> {
    let inode = disk.find(ROOT, name(named)).ok()?;
    disk.read(inode, 0, usize::MAX).ok().map(<[u8]>::to_vec)
}

/// A disk with a durable file `a` that holds `old`.
fn disk_with_a() -> (Disk, u64) {
    let mut disk = Disk::new();
    let a = file(&mut disk, "a");
    disk.write(a, 0, b"old").expect("room");
    disk.sync(a).expect("a sync");
    disk.sync_folder(ROOT).expect("a sync");
    (disk, a)
}

#[test]
fn what_was_synced_is_kept_and_what_was_not_is_forgotten() {
    let (mut disk, a) = disk_with_a();
    disk.write(a, 1, b"new").expect("room");
    assert_eq!(bytes(&disk, "a").as_deref(), Some(&b"onew"[..]));
    assert_eq!(bytes(&after(&disk, Way::Nothing), "a"), Some(b"old".into()));
    assert_eq!(
        bytes(&after(&disk, Way::Everything), "a"),
        Some(b"onew".into())
    );
    disk.sync(a).expect("a sync");
    assert_eq!(
        bytes(&after(&disk, Way::Nothing), "a"),
        Some(b"onew".into())
    );
    disk.set_len(a, 1).expect("shorter");
    assert_eq!(
        bytes(&after(&disk, Way::Nothing), "a"),
        Some(b"onew".into())
    );
}

#[test]
fn a_file_that_was_synced_without_its_folder_has_no_name() {
    let mut disk = Disk::new();
    let b = file(&mut disk, "b");
    disk.write(b, 0, b"there").expect("room");
    disk.sync(b).expect("a sync");
    assert_eq!(bytes(&after(&disk, Way::Nothing), "b"), None);
    disk.sync_folder(ROOT).expect("a sync");
    assert_eq!(
        bytes(&after(&disk, Way::Nothing), "b"),
        Some(b"there".into())
    );
}

#[test]
fn a_name_that_was_synced_without_its_file_names_nothing_written() {
    let mut disk = Disk::new();
    let b = file(&mut disk, "b");
    disk.sync_folder(ROOT).expect("a sync");
    disk.write(b, 0, b"there").expect("room");
    assert_eq!(bytes(&after(&disk, Way::Nothing), "b"), Some(Vec::new()));
}

#[test]
fn a_rename_and_a_removal_are_forgotten_until_the_folder_is_synced() {
    let (mut disk, _) = disk_with_a();
    let b = file(&mut disk, "b");
    disk.write(b, 0, b"better").expect("room");
    disk.sync(b).expect("a sync");
    disk.rename((ROOT, name("b")), (ROOT, name("a")))
        .expect("b");
    assert_eq!(bytes(&disk, "a"), Some(b"better".into()));
    assert_eq!(bytes(&after(&disk, Way::Nothing), "a"), Some(b"old".into()));
    disk.sync_folder(ROOT).expect("a sync");
    assert_eq!(
        bytes(&after(&disk, Way::Nothing), "a"),
        Some(b"better".into())
    );
    disk.remove(ROOT, name("a")).expect("a");
    assert_eq!(
        bytes(&after(&disk, Way::Nothing), "a"),
        Some(b"better".into())
    );
    assert_eq!(bytes(&after(&disk, Way::Everything), "a"), None);
}

#[test]
fn a_rename_is_never_there_by_half() {
    let (mut disk, _) = disk_with_a();
    disk.rename((ROOT, name("a")), (ROOT, name("z")))
        .expect("a");
    for seed in 0..50 {
        let (left, _) = disk.survivor(Way::Any, Way::Any, &mut Dice::new(seed));
        let (a, z) = (bytes(&left, "a"), bytes(&left, "z"));
        assert!(a.is_some() != z.is_some(), "{a:?} and {z:?}");
    }
}

#[test]
fn writes_are_torn_at_sectors_and_nowhere_else() {
    let (mut disk, a) = disk_with_a();
    disk.write(a, 0, &[b'.'; 2_048]).expect("room");
    disk.sync(a).expect("a sync");
    disk.write(a, 100, &[b'x'; 1_500]).expect("room");
    let (mut torn, mut out_of_order) = (0, 0);
    for seed in 0..200 {
        let (left, forgotten) = disk.survivor(Way::Any, Way::Any, &mut Dice::new(seed));
        let left = bytes(&left, "a").expect("the file");
        let pieces = [100..512, 512..1_024, 1_024..1_536, 1_536..1_600];
        let there = pieces.map(|piece| {
            let first = left[piece.start];
            assert!(
                left[piece].iter().all(|byte| *byte == first),
                "a torn sector"
            );
            first == b'x'
        });
        assert!(
            left[..100]
                .iter()
                .chain(&left[1_600..])
                .all(|byte| *byte == b'.')
        );
        let some = there.contains(&true) && there.contains(&false);
        assert_eq!(forgotten.torn, u64::from(some));
        torn += forgotten.torn;
        out_of_order += u64::from(!there[0] && there[3]);
    }
    assert!(torn > 100 && out_of_order > 20, "{torn}, {out_of_order}");
}

#[test]
fn a_file_that_only_grows_may_be_cut_short_and_has_no_hole() {
    let (mut disk, a) = disk_with_a();
    for place in 0..3 {
        disk.write(a, 3 + place * 1_500, &[b'x'; 1_500])
            .expect("room");
    }
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (left, _) = disk.survivor(Way::Short, Way::Any, &mut Dice::new(seed));
        let left = bytes(&left, "a").expect("the file");
        assert!(left[3..].iter().all(|byte| *byte == b'x'), "a hole");
        lengths.insert(left.len());
    }
    assert!(lengths.len() > 8, "{lengths:?}");
    let is_torn = |len: &usize| len.is_multiple_of(512) || (len - 3).is_multiple_of(1_500);
    assert!(lengths.iter().all(is_torn), "{lengths:?}");
}

#[test]
fn a_sector_is_as_it_was_at_some_moment() {
    let (mut disk, a) = disk_with_a();
    for byte in 1..=3_u8 {
        disk.write(a, u64::from(byte) - 1, &[byte]).expect("room");
    }
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (left, _) = disk.survivor(Way::Any, Way::Any, &mut Dice::new(seed));
        seen.insert(bytes(&left, "a").expect("the file"));
    }
    let moments = [b"old", &[1, b'l', b'd'], &[1, 2, b'd'], &[1, 2, 3]];
    let moments = moments.map(|moment| moment.to_vec()).into_iter().collect();
    assert_eq!(seen, moments);
}

#[test]
fn nothing_changes_when_the_power_is_off() {
    let (mut disk, a) = disk_with_a();
    disk.plan(Plan::Cut(1));
    disk.write(a, 0, b"new").expect("the last operation");
    assert!(disk.sync(a).is_err() && disk.is_off());
    assert!(disk.write(a, 0, b"newer").is_err());
    assert!(disk.remove(ROOT, name("a")).is_err());
    assert_eq!(bytes(&disk, "a"), Some(b"new".into()));
    let (left, forgotten) = disk.survivor(Way::Nothing, Way::Nothing, &mut Dice::new(1));
    assert_eq!((forgotten.pending, forgotten.lost), (1, 1));
    assert_eq!(bytes(&left, "a"), Some(b"old".into()));
}

#[test]
fn a_sync_that_failed_is_not_made_up_for_by_the_next() {
    let (mut disk, a) = disk_with_a();
    disk.plan(Plan::FailOnce(1));
    disk.write(a, 0, b"new").expect("room");
    assert!(disk.sync(a).is_err());
    disk.sync(a).expect("a sync that has nothing to do");
    assert_eq!(bytes(&disk, "a"), Some(b"new".into()));
    assert_eq!(
        bytes(&after(&disk, Way::Everything), "a"),
        Some(b"old".into())
    );
}

#[test]
fn a_full_disk_still_shrinks_and_a_read_only_one_does_not() {
    let (mut disk, a) = disk_with_a();
    disk.plan(Plan::Full(0));
    assert_eq!(disk.write(a, 0, b"n"), Err(io::ErrorKind::StorageFull));
    disk.set_len(a, 1).expect("less takes no room");
    disk.plan(Plan::ReadOnly(0));
    assert_eq!(disk.set_len(a, 0), Err(io::ErrorKind::ReadOnlyFilesystem));
    disk.plan(Plan::Nothing);
    disk.write(a, 0, b"n").expect("room");
}
