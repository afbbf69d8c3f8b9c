//! The input of a run: a batch of samples, as tensors.

use std::sync::Arc;

use tensor::Tensor;

/// Tensors by the name of the data variable they go to, in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    layout: FeedNames,
    tensors: Vec<Tensor>,
    /// Names that were given and left out, because the program does not have them.
    strays: Vec<String>,
}

/// The names of a feed. Batches of one reader share them, so that steps compare no text.
#[derive(Clone, Debug, Default)]
pub struct FeedNames {
    names: Arc<[String]>,
    /// Which of them are not fed; none if all are.
    left_out: Option<Arc<[bool]>>,
}

impl FeedNames {
    /// Of these names.
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self { names: names.into(), left_out: None }
    }

    fn is_fed(&self, at: usize) -> bool {
        self.left_out.as_ref().is_none_or(|left_out| !left_out[at])
    }

    /// The names that are fed, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let fed = self.names.iter().enumerate().filter(|(at, _)| self.is_fed(*at));
        fed.map(|(_, name)| name.as_str())
    }
}

impl PartialEq for FeedNames {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.left_out, &other.left_out) {
            (None, None) => Arc::ptr_eq(&self.names, &other.names),
            (Some(own), Some(others)) => {
                Arc::ptr_eq(&self.names, &other.names) && Arc::ptr_eq(own, others)
            }
            _ => false,
        };
        is_same || self.names().eq(other.names())
    }
}

impl Eq for FeedNames {}

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
            None => {
                let names = self.layout.names.iter().cloned().chain([name.to_string()]);
                self.layout = FeedNames::new(names.collect());
                self.tensors.push(tensor);
            }
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.layout.names.iter().position(|own| own == name)
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.place(name).map(|at| &self.tensors[at])
    }

    /// The tensor of a name, to refill for the next batch.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Tensor> {
        self.place(name).map(|at| &mut self.tensors[at])
    }

    /// The names, and which of them are fed.
    pub fn layout(&self) -> &FeedNames {
        &self.layout
    }

    /// Makes room for a tensor of each name; memory of tensors that had these names is kept.
    pub(crate) fn lay_out(&mut self, layout: &FeedNames) {
        if !Arc::ptr_eq(&self.layout.names, &layout.names) {
            if self.layout.names != layout.names {
                self.tensors.clear();
                self.tensors.resize_with(layout.names.len(), Tensor::default);
            }
            self.layout = layout.clone();
        }
    }

    /// Removes tensors that are not wanted; `known` remembers the result for later batches.
    pub fn leave_out(&mut self, known: &mut Option<FeedNames>, is_wanted: impl Fn(&str) -> bool) {
        let is_known = |known: &FeedNames| Arc::ptr_eq(&known.names, &self.layout.names);
        let layout = match known.take().filter(is_known) {
            Some(layout) => layout,
            None => {
                let left_out: Arc<[bool]> =
                    self.layout.names.iter().map(|name| !is_wanted(name)).collect();
                let left_out = left_out.contains(&true).then_some(left_out);
                FeedNames { names: self.layout.names.clone(), left_out }
            }
        };
        self.layout = known.insert(layout).clone();
    }

    /// Removes tensors that `keep` does not want.
    pub fn keep_only(&mut self, mut keep: impl FnMut(&str) -> bool) {
        if self.layout.names.iter().all(|name| keep(name)) {
            return;
        }
        let strays = std::mem::take(&mut self.strays);
        let all = std::mem::take(self).into_iter();
        *self = all.filter(|(name, _)| keep(name)).collect();
        self.strays = strays;
    }

    /// Names that were given and left out; an error about what is missing tells of them.
    pub fn set_strays(&mut self, names: Vec<String>) {
        self.strays = names;
    }

    /// Names that were given and left out.
    pub fn strays(&self) -> impl Iterator<Item = &str> {
        self.strays.iter().map(String::as_str)
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.layout.names()
    }

    /// The tensors, in order.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let all = self.tensors.iter().enumerate();
        all.filter(|(at, _)| self.layout.is_fed(*at)).map(|(_, tensor)| tensor)
    }

    /// The tensors, to lend them or to fill them.
    pub fn tensors_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        let layout = &self.layout;
        let all = self.tensors.iter_mut().enumerate();
        all.filter(|(at, _)| layout.is_fed(*at)).map(|(_, tensor)| tensor)
    }

    /// The tensors, also those that are left out.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.tensors.iter_mut()
    }

    /// Names and tensors, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.names().zip(self.tensors())
    }

    /// The samples: rows of the first tensor, or its sequences.
    pub fn n_samples(&self) -> u64 {
        let Some(tensor) = self.tensors.first() else { return 0 };
        let rows = tensor.dims().first().copied().unwrap_or(0);
        let levels = tensor.lod().levels();
        levels.first().map_or(rows, |offsets| offsets.len().saturating_sub(1)) as u64
    }
}

impl IntoIterator for Feed {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        let layout = self.layout;
        let all = layout.names.iter().cloned().zip(self.tensors).enumerate();
        let fed = all.filter(|(at, _)| layout.is_fed(*at)).map(|(_, entry)| entry);
        fed.collect::<Vec<_>>().into_iter()
    }
}

impl<N: Into<String>> FromIterator<(N, Tensor)> for Feed {
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(name, tensor)| (name.into(), tensor));
        let (names, tensors): (Vec<String>, Vec<Tensor>) = entries.unzip();
        Self { layout: FeedNames::new(names), tensors, strays: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Feed {
        names.iter().map(|name| (*name, Tensor::full([2], 1i64))).collect()
    }

    #[test]
    fn what_is_not_wanted_is_left_out_and_comes_back_with_the_memory() {
        let (mut feed, mut known) = (of(&["a", "b", "c"]), None);
        feed.leave_out(&mut known, |name| name != "b");
        assert_eq!(feed.names().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!((feed.tensors().count(), feed.tensors_mut().count()), (2, 2));
        assert!(feed.get("b").is_some(), "it is there, but nobody is fed with it");
        // The next batch of the reader does not call the filter again.
        let mut next = Feed { layout: FeedNames::default(), ..feed.clone() };
        next.lay_out(&FeedNames { left_out: None, ..feed.layout.clone() });
        next.leave_out(&mut known, |_| panic!("known"));
        assert_eq!(next.layout(), feed.layout());
        assert_eq!(feed.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn feeds_of_the_same_names_are_laid_out_alike() {
        assert_eq!(of(&["a", "b"]).layout(), of(&["a", "b"]).layout());
        assert_ne!(of(&["a", "b"]).layout(), of(&["b", "a"]).layout());
        let (mut feed, mut known) = (of(&["a", "b"]), None);
        feed.leave_out(&mut known, |name| name == "a");
        assert_eq!(feed.layout(), of(&["a"]).layout());
        assert_ne!(feed.layout(), of(&["a", "b"]).layout());
    }

    #[test]
    fn names_come_and_go() {
        let mut feed = of(&["a", "b"]);
        feed.set_strays(vec!["x".to_string()]);
        feed.set("a", Tensor::full([3], 2i64));
        feed.set("c", Tensor::full([1], 3i64));
        assert_eq!(feed.n_samples(), 3);
        feed.keep_only(|name| name != "b");
        let found: Vec<_> = feed.iter().map(|(name, tensor)| (name, tensor.len())).collect();
        assert_eq!(found, [("a", 3), ("c", 1)]);
        assert_eq!(feed.strays().collect::<Vec<_>>(), ["x"]);
    }
}
