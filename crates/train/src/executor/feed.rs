//! What a caller hands to a run.

use tensor::Tensor;

/// Tensors by the name of the data variable they go to, in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    entries: Vec<(String, Tensor)>,
    /// Names that were given and left out, because the program does not have them.
    strays: Vec<String>,
}

impl Feed {
    /// Nothing to feed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor, or replaces the one of that name.
    pub fn with(mut self, name: &str, tensor: Tensor) -> Self {
        self.set(name, tensor);
        self
    }

    /// Adds a tensor, or replaces the one of that name.
    pub fn set(&mut self, name: &str, tensor: Tensor) {
        match self.get_mut(name) {
            Some(old) => *old = tensor,
            None => self.entries.push((name.to_string(), tensor)),
        }
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.entries.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }

    /// The tensor of a name, to refill for the next batch.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Tensor> {
        self.entries.iter_mut().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }

    /// Lends the tensors of a batch, or gives them back. What is not fed yet is added if it is
    /// wanted, otherwise left where it is.
    pub fn exchange(&mut self, batch: &mut [(String, Tensor)], is_wanted: impl Fn(&str) -> bool) {
        let mut at = 0;
        for (name, tensor) in batch {
            // Batches have one order: most names are where they were.
            if self.entries.get(at).is_none_or(|(own, _)| own != name) {
                at = match self.entries.iter().position(|(own, _)| own == name) {
                    Some(at) => at,
                    None if is_wanted(name) => {
                        self.entries.push((name.clone(), Tensor::default()));
                        self.entries.len() - 1
                    }
                    None => continue,
                };
            }
            std::mem::swap(&mut self.entries[at].1, tensor);
            at += 1;
        }
    }

    /// Forgets what `keep` does not want.
    pub fn keep_only(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.entries.retain(|(name, _)| keep(name));
    }

    /// Names that were given and left out; an error about what is missing tells of them.
    pub fn set_strays(&mut self, names: Vec<String>) {
        self.strays = names;
    }

    pub(super) fn strays(&self) -> impl Iterator<Item = &str> {
        self.strays.iter().map(String::as_str)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// The tensors, in order.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.entries.iter().map(|(_, tensor)| tensor)
    }

    pub(super) fn tensors_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.entries.iter_mut().map(|(_, tensor)| tensor)
    }
}

impl<N: Into<String>> FromIterator<(N, Tensor)> for Feed {
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(name, t)| (name.into(), t)).collect();
        Self { entries, strays: Vec::new() }
    }
}
