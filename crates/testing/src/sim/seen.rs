//! The observations of a trainer, and their bytes in a journal.

/// The observations of a trainer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Bits of the parameters it fetched, a list for each fetch.
    pub params: Vec<Vec<u32>>,
    /// The changes of others, by server.
    pub news: Vec<(usize, i64)>,
    /// The values of each all-gather.
    pub gathered: Vec<Vec<Vec<u8>>>,
    /// The values that it was given, by exchange and server.
    pub exchanged: Vec<Vec<Vec<u8>>>,
}

impl Seen {
    /// Everything of several steps.
    pub fn all(steps: &[Seen]) -> Seen {
        let mut all = Seen::default();
        for Seen { params, news, gathered, exchanged } in steps.iter().cloned() {
            all.params.extend(params);
            all.news.extend(news);
            all.gathered.extend(gathered);
            all.exchanged.extend(exchanged);
        }
        all
    }

    /// Appends the bytes of what a step saw.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let mut number = |n: usize| bytes.extend_from_slice(&(n as u64).to_le_bytes());
        number(self.params.len());
        for params in &self.params {
            number(params.len());
            params.iter().for_each(|&bits| number(bits as usize));
        }
        number(self.news.len());
        for &(server, tag) in &self.news {
            number(server);
            number(tag as usize);
        }
        for lists in [&self.gathered, &self.exchanged] {
            number(lists.len());
            for list in lists {
                number(list.len());
                for part in list {
                    number(part.len());
                    part.iter().for_each(|&byte| number(byte.into()));
                }
            }
        }
    }

    /// Reads what a step saw.
    pub fn read(bytes: &mut &[u8]) -> Seen {
        let params = list(bytes, |bytes| list(bytes, |bytes| number(bytes) as u32));
        let news = list(bytes, |bytes| (number(bytes), number(bytes) as i64));
        let mut lists =
            || list(bytes, |bytes| list(bytes, |bytes| list(bytes, |bytes| number(bytes) as u8)));
        Seen { params, news, gathered: lists(), exchanged: lists() }
    }
}

fn list<T>(bytes: &mut &[u8], mut one: impl FnMut(&mut &[u8]) -> T) -> Vec<T> {
    (0..number(bytes)).map(|_| one(bytes)).collect()
}

/// A number of a journal or of a state.
pub(super) fn number(bytes: &mut &[u8]) -> usize {
    let (first, rest) = bytes.split_first_chunk::<8>().expect("we wrote it");
    *bytes = rest;
    u64::from_le_bytes(*first) as usize
}
