//! A folder in memory for the embedded store.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_store_embedded::files::{File, Files, Lock, LockError};

#[derive(Clone, Default)]
pub(super) struct Folder(Arc<Mutex<BTreeMap<String, Blob>>>);

#[derive(Clone, Default)]
struct Blob(Arc<Mutex<Vec<u8>>>);

struct Held;

impl Folder {
    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        let blob = Blob(Arc::new(Mutex::new(bytes)));
        locked(&self.0).insert(name.to_owned(), blob);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files for Folder {
    fn lock(&self, _: &str) -> Result<Box<dyn Lock>, LockError> {
        Ok(Box::new(Held))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(locked(&self.0).keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.put(name, Vec::new());
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        match locked(&self.0).get(name) {
            Some(blob) => Ok(Box::new(blob.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = locked(&self.0);
        let blob = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.insert(to.to_owned(), blob);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = locked(&self.0).remove(name);
        removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_volatile(&self) -> bool {
        true
    }
}

impl File for Blob {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(locked(&self.0).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = locked(&self.0);
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..));
        let rest = rest.unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut all = locked(&self.0);
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let end = offset + bytes.len();
        if all.len() < end {
            all.resize(end, 0);
        }
        all[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        locked(&self.0).truncate(len);
        Ok(())
    }
}

impl Lock for Held {}
