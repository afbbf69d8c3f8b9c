use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tempfile::tempdir;
use tensor::DType;

use super::disk::{Change, watch};
use super::*;
use crate::error::Error;

type Files = BTreeMap<String, Vec<u8>>;

/// A folder in memory, where there is one: these tests copy folders some thousand times.
fn fast_dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempdir().unwrap() }
}

fn files(of: &[(&str, &str)]) -> Files {
    of.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect()
}

fn save(dir: &Path, files: &Files) -> crate::error::Result<()> {
    let transaction = Transaction::begin(dir)?;
    for (name, bytes) in files {
        transaction.write(name, bytes)?;
    }
    transaction.commit(About::new("variables"))
}

/// The files that our readers see.
fn load(dir: &Path) -> crate::error::Result<Files> {
    Folder::consistently(dir, |folder| {
        let names = folder.manifest().into_iter().flat_map(Manifest::files);
        names.map(|file| Ok((file.name.clone(), folder.read(&file.name)?))).collect()
    })
}

/// The files that other programs see: every file but ours.
fn visible(dir: &Path) -> Files {
    let mut found = Files::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with(PRIVATE)) {
                continue;
            }
            if path.is_dir() {
                folders.push(path)
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Our own files: after a save, one.
fn private_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let names = entries.map(|entry| {
        let (name, is_dir) = (entry.file_name(), entry.file_type().unwrap().is_dir());
        format!("{}{}", name.to_str().unwrap(), if is_dir { "/" } else { "" })
    });
    let mut names: Vec<String> = names.filter(|name| name.starts_with(PRIVATE)).collect();
    names.sort();
    names
}

/// Turns a folder into one of the earlier form: with a private folder instead of a file. `n_waiting` files
/// are not under their usual names yet.
fn make_older(dir: &Path, n_waiting: usize) {
    let read = read::read_manifest(dir).unwrap().unwrap();
    fs::remove_file(dir.join(PRIVATE)).unwrap();
    fs::create_dir(dir.join(PRIVATE)).unwrap();
    fs::write(dir.join(PRIVATE).join("lock"), "").unwrap();
    let (text, hash) = read.manifest.to_text();
    fs::write(dir.join(PRIVATE).join(OLDER_MANIFEST), text).unwrap();
    for file in read.manifest.files().take(n_waiting) {
        let waiting = dir.join(PRIVATE).join(format!("commit-{hash:016x}/files")).join(&file.name);
        fs::create_dir_all(waiting.parent().unwrap()).unwrap();
        fs::rename(dir.join(&file.name), &waiting).unwrap();
        fs::write(dir.join(&file.name), "of the save before").unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn what_is_saved_is_there_under_its_name() {
    let dir = tempdir().unwrap();
    let saved = files(&[("w", "one"), ("a/b", "two")]);
    save(dir.path(), &saved).unwrap();
    assert_eq!(load(dir.path()).unwrap(), saved);
    assert_eq!(visible(dir.path()), saved);
    assert_eq!(private_names(dir.path()), [PRIVATE]);
    let folder = Folder::open(dir.path()).unwrap();
    assert_eq!(folder.manifest().unwrap().newest(), Some(&About::new("variables")));
}

#[test]
fn saves_of_other_files_add_up_and_files_of_others_stay() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    save(dir.path(), &files(&[("a", "1"), ("b", "1")])).unwrap();
    save(dir.path(), &files(&[("b", "2"), ("c", "2")])).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1"), ("b", "2"), ("c", "2")]));
    assert_eq!(fs::read(dir.path().join("notes.txt")).unwrap(), b"mine");
    // A file that somebody deleted is not missed after the next save.
    fs::remove_file(dir.path().join("a")).unwrap();
    save(dir.path(), &files(&[("b", "3")])).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("b", "3"), ("c", "2")]));
}

#[test]
fn the_same_save_gives_the_same_bytes() {
    let dirs = [tempdir().unwrap(), tempdir().unwrap()];
    let text = dirs.map(|dir| {
        save(dir.path(), &files(&[("a", "1"), ("b", "2")])).unwrap();
        save(dir.path(), &files(&[("a", "3")])).unwrap();
        fs::read(dir.path().join(PRIVATE)).unwrap()
    });
    assert_eq!(text[0], text[1]);
}

#[test]
fn a_manifest_survives_and_every_flipped_bit_of_it_is_found() {
    let dir = tempdir().unwrap();
    let transaction = Transaction::begin(dir.path()).unwrap();
    let mut file = transaction.create("two words\n").unwrap();
    file.holds(SavedVar { name: "x y".to_string(), dtype: DType::F32, dims: vec![2, -1] });
    file.holds(SavedVar { name: "s".to_string(), dtype: DType::I64, dims: vec![] });
    file.is_part(SavedPart { var: "x y".to_string(), number: 1, n: 3 });
    file.finish().unwrap();
    let about = About { step: Some(7), mode: "sync".to_string(), n_servers: 2, ..About::new("m") };
    transaction.commit(about.clone()).unwrap();
    let path = dir.path().join(PRIVATE);
    let folder = Folder::open(dir.path()).unwrap();
    let saved = folder.saved("two words\n").unwrap();
    assert_eq!((saved.vars.len(), saved.vars[0].dims.clone()), (2, vec![2, -1]));
    assert_eq!(folder.manifest().unwrap().parts("x y").len(), 1);
    assert_eq!(folder.manifest().unwrap().newest(), Some(&about));
    let bytes = fs::read(&path).unwrap();
    let is_refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Folder::open(dir.path()).is_err()
    };
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        assert!(is_refused(&damaged), "bit {at}");
    }
    for n in 0..bytes.len() {
        assert!(is_refused(&bytes[..n]), "{n} bytes");
    }
    // A damaged list keeps nobody from saving again.
    fs::write(&path, &bytes[..20]).unwrap();
    assert!(matches!(Folder::open(dir.path()), Err(Error::BadManifest { .. })));
    save(dir.path(), &files(&[("a", "1")])).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1")]));
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let dir = tempdir().unwrap();
    save(dir.path(), &files(&[("a", "1")])).unwrap();
    let path = dir.path().join(PRIVATE);
    fs::write(&path, "paddlewheel folder 2\n\u{1}whatever").unwrap();
    let read = Folder::open(dir.path()).unwrap_err();
    assert!(matches!(read, Error::ManifestVersion { found: 2, known: 1, .. }), "{read}");
    let saved = save(dir.path(), &files(&[("a", "2")])).unwrap_err();
    assert!(matches!(saved, Error::ManifestVersion { .. }), "{saved}");
    assert_eq!(visible(dir.path()), files(&[("a", "1")]));
}

#[test]
fn what_others_changed_is_named_with_both_sides() {
    let root = tempdir().unwrap();
    let dir = root.path().join("2");
    save(&dir, &files(&[("a", "12"), ("b", "12")])).unwrap();
    fs::write(dir.join("a"), "13").unwrap();
    let error = load(&dir).unwrap_err();
    let Error::FileDiffers { path, expected, found, offer: None } = &error else {
        panic!("{error}");
    };
    assert_eq!((path, expected.n_bytes, found.n_bytes), (&dir.join("a"), 2, 2));
    assert_ne!(expected.checksum, found.checksum);
    fs::remove_file(dir.join("a")).unwrap();
    // The same files beside it, whole, and damaged.
    save(&root.path().join("1"), &files(&[("a", "0"), ("b", "0")])).unwrap();
    save(&root.path().join("0"), &files(&[("a", "0"), ("b", "0")])).unwrap();
    fs::write(root.path().join("0/a"), "9").unwrap();
    save(&root.path().join("other"), &files(&[("a", "0")])).unwrap();
    let error = load(&dir).unwrap_err();
    let Error::FileLost { offer: Some(offer), .. } = &error else {
        panic!("{error}");
    };
    assert!(offer.ends_with("1"), "{}", offer.display());
    assert!(error.to_string().contains("older save that is whole"), "{error}");
}

#[test]
fn folders_without_a_list_and_files_that_are_on_none_are_read_as_they_are() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("a"), "fluid").unwrap();
    let read = |name: &str| Folder::consistently(dir.path(), |folder| folder.read(name));
    assert_eq!(read("a").unwrap(), b"fluid");
    save(dir.path(), &files(&[("b", "1")])).unwrap();
    assert_eq!(read("a").unwrap(), b"fluid");
    assert!(matches!(read("c"), Err(Error::ReadFile { .. })));
    for name in ["../a", "/etc/passwd", "", ".paddlewheel", ".paddlewheel.saving/lock"] {
        // Programs that load every file of a folder may read our list; nobody writes it.
        let is_ours = name.starts_with(PRIVATE);
        assert!(is_ours || matches!(read(name), Err(Error::UnsafeName { .. })), "{name}");
        let transaction = Transaction::begin(dir.path()).unwrap();
        assert!(matches!(transaction.create(name), Err(Error::UnsafeName { .. })), "{name}");
    }
}

#[test]
fn a_save_that_is_given_up_leaves_nothing() {
    let dir = tempdir().unwrap();
    save(dir.path(), &files(&[("a", "1")])).unwrap();
    let transaction = Transaction::begin(dir.path()).unwrap();
    transaction.write("a", b"2").unwrap();
    drop(transaction);
    assert_eq!(visible(dir.path()), files(&[("a", "1")]));
    assert_eq!(private_names(dir.path()), [PRIVATE]);
    // A folder in the place of a file is found before the commit.
    fs::create_dir(dir.path().join("taken")).unwrap();
    let error = save(dir.path(), &files(&[("a", "2"), ("taken", "2")])).unwrap_err();
    assert!(matches!(error, Error::WriteFile { .. }), "{error}");
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1")]));
    assert_eq!(private_names(dir.path()), [PRIVATE]);
}

#[test]
fn in_a_folder_of_everybody_each_user_has_a_list() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    save(dir.path(), &files(&[("a", "1")])).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1")]));
    let user = fs::metadata(dir.path()).unwrap().uid();
    assert!(dir.path().join(format!("{PRIVATE}-{user}")).is_file());
    assert!(!dir.path().join(PRIVATE).exists());
}

#[test]
fn two_saves_at_once_are_one_after_the_other() {
    let dir = tempdir().unwrap();
    let one = Transaction::begin(dir.path()).unwrap();
    let two = Transaction::begin(dir.path()).unwrap();
    one.write("a", b"1").unwrap();
    two.write("b", b"2").unwrap();
    two.write("c", b"2").unwrap();
    two.commit(About::new("variables")).unwrap();
    one.write("c", b"1").unwrap();
    one.commit(About::new("variables")).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1"), ("b", "2"), ("c", "1")]));
}

#[test]
fn parts_of_another_number_and_whole_files_are_replaced() {
    let dir = tempdir().unwrap();
    let save = |n: usize| {
        let transaction = Transaction::begin(dir.path()).unwrap();
        for number in 0..n {
            let mut file = transaction.create(&format!("t/emb_{number}of{n}")).unwrap();
            file.is_part(SavedPart { var: "emb".to_string(), number, n });
            file.finish().unwrap();
        }
        transaction.commit(About::new("variables")).unwrap();
    };
    let whole = || {
        let transaction = Transaction::begin(dir.path()).unwrap();
        let mut file = transaction.create("emb").unwrap();
        file.holds(SavedVar { name: "emb".to_string(), dtype: DType::F32, dims: vec![1] });
        file.finish().unwrap();
        transaction.commit(About::new("variables")).unwrap();
    };
    let names = || visible(dir.path()).into_keys().collect::<Vec<_>>();
    fs::create_dir(dir.path().join("t")).unwrap();
    // One of an older version, which is on no list, and one of another variable.
    fs::write(dir.path().join("t/emb_0of3"), "").unwrap();
    fs::write(dir.path().join("t/emb_1_0of3"), "").unwrap();
    save(2);
    assert_eq!(names(), ["t/emb_0of2", "t/emb_1_0of3", "t/emb_1of2"]);
    save(1);
    assert_eq!(names(), ["t/emb_0of1", "t/emb_1_0of3"]);
    whole();
    assert_eq!(names(), ["emb", "t/emb_1_0of3"]);
    save(1);
    assert_eq!(names(), ["t/emb_0of1", "t/emb_1_0of3"]);
}

#[test]
fn other_processes_add_files() {
    let dir = tempdir().unwrap();
    let mut transaction = Transaction::begin(dir.path()).unwrap();
    let part = StagePart::begin(&transaction.open_to_others()).unwrap();
    let write = |stage: &stage::Stage| {
        let file = stage.create("t/emb_0")?;
        file.finish()
    };
    part.add("emb/0", write).unwrap();
    transaction.write("a", b"1").unwrap();
    // Until the commit, nothing is seen of it.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(transaction.take_list("emb/0").unwrap());
    assert!(!transaction.take_list("emb/1").unwrap());
    transaction.commit(About::new("variables")).unwrap();
    part.commit(About::new("variables")).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1"), ("t/emb_0", "")]));
    assert_eq!(private_names(dir.path()), [PRIVATE]);
}

#[test]
fn other_processes_commit_on_disks_of_their_own() {
    let dir = tempdir().unwrap();
    let stage = dir.path().join(SAVING).join("stage-7");
    let parts = [0, 1].map(|n| {
        let part = StagePart::begin(&stage).unwrap();
        part.add(&format!("emb{n}"), |stage| stage.create(&format!("t/emb_{n}"))?.finish())
            .unwrap();
        part
    });
    for part in parts {
        part.commit(About::new("variables")).unwrap();
    }
    assert_eq!(load(dir.path()).unwrap(), files(&[("t/emb_0", ""), ("t/emb_1", "")]));
    // One that is given up, one that somebody removed, and one that was left behind.
    let part = StagePart::begin(&stage).unwrap();
    part.add("emb0", |stage| stage.create("t/emb_0")?.finish()).unwrap();
    part.give_up();
    assert_eq!(private_names(dir.path()), [PRIVATE]);
    let part = StagePart::begin(&stage).unwrap();
    part.add("emb9", |stage| stage.create("t/emb_9")?.finish()).unwrap();
    stage::Stage::spot_of(dir.path(), "7").remove();
    let error = part.commit(About::new("variables")).unwrap_err();
    assert!(matches!(error, Error::NotSaved { .. }), "{error}");
    drop(StagePart::begin(&stage).unwrap());
    save(dir.path(), &files(&[("a", "1")])).unwrap();
    assert_eq!(private_names(dir.path()), [PRIVATE]);
    let error = StagePart::begin(dir.path()).unwrap_err();
    assert!(matches!(error, Error::NoStage { .. }), "{error}");
}

/// The folder before every change of a save, as a crash of the machine would leave it: files that were not
/// made durable are torn.
fn crashes(dir: &Path, save: impl FnOnce()) -> Vec<tempfile::TempDir> {
    let states: Rc<RefCell<Vec<tempfile::TempDir>>> = Rc::default();
    let (kept, root) = (states.clone(), dir.to_path_buf());
    let mut torn: BTreeSet<PathBuf> = BTreeSet::new();
    watch(Some(Box::new(move |change| {
        let state = fast_dir();
        copy(&root, state.path());
        for path in torn.iter().filter_map(|path| path.strip_prefix(&root).ok()) {
            let path = state.path().join(path);
            if let Ok(bytes) = fs::read(&path) {
                fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
            }
        }
        kept.borrow_mut().push(state);
        match change {
            Change::Write(path) => drop(torn.insert(path.to_path_buf())),
            Change::Sync(path) => drop(torn.remove(*path)),
            Change::Rename(from, to) => {
                torn = torn.iter().map(|path| moved(path, from, to)).collect();
            }
            Change::Make | Change::Remove => {}
        }
        Ok(())
    })));
    save();
    watch(None);
    states.take()
}

fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_path_buf(),
    }
}

#[test]
fn a_crash_at_any_change_leaves_the_old_save_or_the_new_one() {
    let dir = fast_dir();
    fs::write(dir.path().join("other"), "mine").unwrap();
    let old = files(&[("a", "old"), ("b/c", "old"), ("keep", "old")]);
    save(dir.path(), &old).unwrap();
    let new = files(&[("a", "new one"), ("b/c", "new one"), ("d/e", "new one")]);
    let mut both = new.clone();
    both.insert("keep".to_string(), b"old".to_vec());
    let states = crashes(dir.path(), || save(dir.path(), &new).unwrap());
    assert!(states.len() > 15, "{}", states.len());
    let mut n_new = 0;
    for (at, state) in states.iter().enumerate() {
        // Others may see files, and no folder of ours; after a load, only the list.
        let left = private_names(state.path());
        let is_file = |name: &String| !name.ends_with('/');
        assert!(left.iter().all(is_file), "crash {at}: {left:?}");
        let found = load(state.path()).unwrap();
        assert_eq!(private_names(state.path()), [PRIVATE], "crash {at}");
        assert!(found == old || found == both, "crash {at}: {found:?}");
        n_new += usize::from(found == both);
        // A crash of the save that comes after the crash, at any change of it.
        let again = files(&[("a", "again")]);
        for (second, state) in
            crashes(state.path(), || save(state.path(), &again).unwrap()).iter().enumerate()
        {
            let mut after = found.clone();
            let seen = load(state.path()).unwrap();
            let is_found = seen == after;
            after.extend(again.clone());
            assert!(is_found || seen == after, "crash {at}, then {second}: {seen:?}");
        }
        assert_eq!(private_names(state.path()), [PRIVATE], "crash {at}");
        let mut expected = found.clone();
        expected.extend(files(&[("a", "again"), ("other", "mine")]));
        assert_eq!(visible(state.path()), expected, "crash {at}");
    }
    assert!((4..states.len() - 10).contains(&n_new), "{n_new} of {}", states.len());
}

#[test]
fn folders_of_the_earlier_form_are_read_and_a_crash_while_one_is_replaced_mixes_nothing() {
    let old = files(&[("a", "old"), ("b/c", "old"), ("keep", "old")]);
    for n_waiting in [0, 2] {
        let dir = fast_dir();
        save(dir.path(), &old).unwrap();
        make_older(dir.path(), n_waiting);
        assert_eq!(load(dir.path()).unwrap(), old);
        let new = files(&[("a", "new one")]);
        let states = crashes(dir.path(), || save(dir.path(), &new).unwrap());
        let mut both = old.clone();
        both.extend(new.clone());
        for (at, state) in states.iter().enumerate() {
            let found = load(state.path()).unwrap();
            assert!(found == old || found == both, "crash {at}: {found:?}");
            save(state.path(), &new).unwrap();
            assert_eq!(load(state.path()).unwrap(), both, "crash {at}");
            assert_eq!(private_names(state.path()), [PRIVATE], "crash {at}");
        }
        assert_eq!(visible(dir.path()), both);
        assert!(dir.path().join(PRIVATE).is_file());
    }
    // A damaged list of the earlier form keeps nobody from saving again.
    let dir = fast_dir();
    save(dir.path(), &old).unwrap();
    make_older(dir.path(), 0);
    fs::write(dir.path().join(PRIVATE).join(OLDER_MANIFEST), "paddlewheel folder 1\n").unwrap();
    assert!(matches!(Folder::open(dir.path()), Err(Error::BadManifest { .. })));
    save(dir.path(), &files(&[("a", "1")])).unwrap();
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "1")]));
    assert_eq!(private_names(dir.path()), [PRIVATE]);
}

/// Other programs must not find both.
#[test]
fn a_crash_leaves_no_file_that_a_save_replaced() {
    let dir = fast_dir();
    let save_part = |dir: &Path, n: usize| {
        let transaction = Transaction::begin(dir).unwrap();
        for number in 0..n {
            let mut file = transaction.create(&format!("t/emb_{number}of{n}")).unwrap();
            file.is_part(SavedPart { var: "emb".to_string(), number, n });
            file.finish().unwrap();
        }
        transaction.commit(About::new("variables")).unwrap();
    };
    save_part(dir.path(), 3);
    let names = |dir: &Path| visible(dir).into_keys().collect::<Vec<_>>();
    let parts = |n: usize| (0..n).map(|at| format!("t/emb_{at}of{n}")).collect::<Vec<_>>();
    let states = crashes(dir.path(), || save_part(dir.path(), 2));
    let mut n_new = 0;
    for (at, state) in states.iter().enumerate() {
        // A load finishes what was committed.
        load(state.path()).unwrap();
        let found = names(state.path());
        assert!(found == parts(3) || found == parts(2), "crash {at}: {found:?}");
        n_new += usize::from(found == parts(2));
    }
    assert!((4..states.len()).contains(&n_new), "{n_new} of {}", states.len());
}

/// The folder `.paddlewheel.saving` was left by a save of an earlier version that was killed.
#[test]
fn a_killed_save_of_an_earlier_version_is_finished() {
    let dir = fast_dir();
    let saved = files(&[("a", "new"), ("b/c", "new")]);
    save(dir.path(), &saved).unwrap();
    let read = read::read_manifest(dir.path()).unwrap().unwrap();
    let saving = dir.path().join(SAVING);
    let waiting = saving.join(format!("commit-{:016x}/files/b", read.hash));
    fs::create_dir_all(&waiting).unwrap();
    fs::rename(dir.path().join("b/c"), waiting.join("c")).unwrap();
    fs::write(dir.path().join("b/c"), "old").unwrap();
    fs::create_dir_all(saving.join("stage-7/files")).unwrap();
    fs::write(saving.join("stage-7/owner-7"), "").unwrap();
    fs::write(saving.join("lock"), "").unwrap();
    assert_eq!(load(dir.path()).unwrap(), saved);
    assert_eq!(private_names(dir.path()), [PRIVATE]);
    assert_eq!(visible(dir.path()), saved);
}

/// As in a container whose volume is the saved folder itself.
#[test]
fn a_save_without_a_place_around_its_folder_leaves_no_folder() {
    let dir = fast_dir();
    let old = files(&[("a", "old"), ("b/c", "old")]);
    save(dir.path(), &old).unwrap();
    let lock = lock::exclusive(dir.path()).unwrap();
    let (stage, owner) = stage::Stage::own_inside(dir.path(), "7", &lock).unwrap();
    stage.write("b/c", b"new").unwrap();
    let own = private_names(dir.path());
    assert!(own.len() == 3 && own.iter().all(|name| !name.ends_with('/')), "{own:?}");
    let save = FolderSave { about: About::new("variables"), files: stage.synced().unwrap() };
    place::commit(dir.path(), &stage.spot, save, &lock).unwrap();
    stage.spot.remove();
    drop((lock, owner));
    assert_eq!(load(dir.path()).unwrap(), files(&[("a", "old"), ("b/c", "new")]));
    assert_eq!(private_names(dir.path()), [PRIVATE]);
}

/// Does what programs do that do not know our format.
#[test]
fn other_programs_find_no_folder_and_can_load_every_file() {
    let dir = tempdir().unwrap();
    let tensor = tensor::Tensor::full([2, 3], 1.0f32);
    let bytes = program::stream::to_bytes(&tensor.into()).unwrap();
    for _ in 0..2 {
        save(dir.path(), &Files::from([("w".to_string(), bytes.clone())])).unwrap();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path();
            assert!(path.is_file(), "{}", path.display());
            let bytes = fs::read(&path).unwrap();
            assert!(program::stream::tensor_from_bytes(&bytes).is_ok(), "{}", path.display());
        }
    }
}

#[test]
fn an_error_of_the_disk_at_any_change_leaves_the_old_save_or_the_new_one() {
    let (old, new) =
        (files(&[("a", "old"), ("b/c", "old")]), files(&[("a", "new"), ("d/e", "new")]));
    for at in 0.. {
        let dir = fast_dir();
        save(dir.path(), &old).unwrap();
        let mut n = 0;
        watch(Some(Box::new(move |_| {
            n += 1;
            let full = io::Error::from(io::ErrorKind::StorageFull);
            if n == at + 1 { Err(full) } else { Ok(()) }
        })));
        let saved = save(dir.path(), &new);
        watch(None);
        let found = load(dir.path()).unwrap();
        let is_new = found.get("a").is_some_and(|text| text == b"new");
        let mut expected = old.clone();
        if is_new {
            expected.extend(new.clone());
        }
        assert_eq!(found, expected, "error {at}");
        match saved {
            Ok(()) => assert!(is_new, "error {at}"),
            Err(Error::NotPlaced { .. }) => assert!(is_new, "error {at}"),
            Err(error) => assert!(matches!(error, Error::WriteFile { .. }), "error {at}: {error}"),
        }
        save(dir.path(), &new).unwrap();
        expected.extend(new.clone());
        assert_eq!(visible(dir.path()), expected, "error {at}");
        assert_eq!(private_names(dir.path()), [PRIVATE], "error {at}");
        if is_new && at > 30 {
            break;
        }
    }
}

/// Several threads write and read it.
#[test]
fn a_large_file_comes_back_and_damage_in_any_part_is_found() {
    let dir = tempdir().unwrap();
    let bytes = |turn: usize| -> Vec<u8> {
        (0..(40 << 20) + 13).map(|at: usize| (at * 31 + at / 4093 + turn) as u8).collect()
    };
    let mut last = Vec::new();
    for turn in 0..2 {
        last = bytes(turn);
        save(dir.path(), &Files::from([("large".to_string(), last.clone())])).unwrap();
    }
    let read = || {
        let folder = Folder::open(dir.path()).unwrap();
        let (mut reader, mut found) = (folder.reader("large").unwrap(), vec![0; last.len()]);
        let (head, rest) = found.split_at_mut(5);
        std::io::Read::read_exact(&mut reader, head).unwrap();
        reader.fill(rest).unwrap();
        reader.finish().map(|()| found)
    };
    assert!(read().unwrap() == last, "other bytes");
    let path = dir.path().join("large");
    for at in [0, 9 << 20, last.len() - 1] {
        let mut damaged = last.clone();
        damaged[at] ^= 16;
        fs::write(&path, &damaged).unwrap();
        assert!(matches!(read(), Err(Error::FileDiffers { .. })), "byte {at}");
    }
    fs::write(&path, &last).unwrap();
    assert!(read().unwrap() == last);
}
