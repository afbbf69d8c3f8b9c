//! What a server's tables are parts of: written into every base, so that servers of another number find
//! their parts, and so that another model is known.

use base::bytes::{ByteReader, ByteWriter, Read};
use program::distributed::{Placement, Spread};

/// A variable of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct VarLayout {
    /// The server's name for it.
    pub(in crate::serve) name: String,
    /// Its shape here.
    pub(in crate::serve) dims: Vec<i64>,
    /// What it is part of, and the shape of that.
    pub(in crate::serve) origin: String,
    pub(in crate::serve) origin_dims: Vec<i64>,
    /// Rows of that before this part.
    pub(in crate::serve) first: i64,
    /// A hash says which rows are here; they keep their numbers.
    pub(in crate::serve) is_hashed: bool,
}

impl VarLayout {
    /// A variable that is not cut.
    pub(in crate::serve) fn whole(name: &str, dims: &[i64]) -> Self {
        let (name, origin) = (name.to_string(), name.to_string());
        let (dims, origin_dims) = (dims.to_vec(), dims.to_vec());
        Self { name, dims, origin, origin_dims, first: 0, is_hashed: false }
    }

    /// A variable that was placed here.
    pub(in crate::serve) fn placed(placed: &Placement) -> Self {
        let is_hashed = placed.spread == Spread::Hash;
        Self {
            name: placed.piece.name.clone(),
            dims: placed.dims(),
            origin: placed.origin.clone(),
            origin_dims: placed.origin_dims.clone(),
            first: if is_hashed { 0 } else { placed.piece.rows.start },
            is_hashed,
        }
    }

    /// In words.
    fn words(&self) -> String {
        format!("`{}` {:?} of `{}` {:?}", self.name, self.dims, self.origin, self.origin_dims)
    }
}

/// The variables of each table; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Layout(pub(in crate::serve) Vec<Vec<VarLayout>>);

impl Layout {
    pub(in crate::serve) fn to_bytes(&self) -> Vec<u8> {
        let var = |to: &mut ByteWriter, var: &VarLayout| {
            to.text(&var.name).dims(&var.dims).text(&var.origin).dims(&var.origin_dims);
            to.u64(var.first as u64).u8(var.is_hashed.into());
        };
        let mut to = ByteWriter::default();
        to.list(&self.0, |to, vars| {
            to.list(vars, var);
        });
        to.0
    }

    pub(in crate::serve) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let var = |parts: &mut ByteReader<'_>| -> Read<VarLayout> {
            Ok(VarLayout {
                name: parts.text()?.to_string(),
                dims: parts.dims()?,
                origin: parts.text()?.to_string(),
                origin_dims: parts.dims()?,
                first: parts.u64()? as i64,
                is_hashed: parts.u8()? == 1,
            })
        };
        let parts = &mut ByteReader::new(bytes);
        let tables = parts.list(|parts| parts.list(var)).ok()?;
        parts.end().ok().map(|()| Self(tables))
    }

    /// Where two models differ first.
    pub(in crate::serve) fn difference(&self, other: &Self) -> Option<LayoutDifference> {
        let words = |layout: &Self| {
            let mut words: Vec<String> = layout.0.iter().flatten().map(VarLayout::words).collect();
            words.sort_unstable();
            words
        };
        let (ours, theirs) = (words(self), words(other));
        let at = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at))?;
        let nothing = || "nothing more".to_string();
        let word = |words: &[String]| words.get(at).cloned().unwrap_or_else(nothing);
        Some(LayoutDifference { ours: word(&ours), theirs: word(&theirs) })
    }
}

/// What each of two models has where they differ first.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::serve) struct LayoutDifference {
    pub(in crate::serve) ours: String,
    pub(in crate::serve) theirs: String,
}

/// Identifies a model, for any number of servers. 64 bits of FNV-1a.
pub(in crate::serve) fn digest(mut lines: Vec<String>) -> u64 {
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_comes_back_and_differences_are_found() {
        let part = VarLayout {
            origin: "w".to_string(),
            origin_dims: vec![20, 3],
            first: 10,
            ..VarLayout::whole("w.block1", &[10, 3])
        };
        let layout = Layout(vec![vec![part.clone(), VarLayout::whole("b", &[1])], Vec::new()]);
        let bytes = layout.to_bytes();
        assert_eq!(Layout::from_bytes(&bytes).as_ref(), Some(&layout));
        assert_eq!(Layout::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(layout.difference(&layout), None);
        let other = Layout(vec![vec![part]]);
        let LayoutDifference { ours, theirs } = layout.difference(&other).unwrap();
        assert!(ours.contains("`b`") && theirs.contains("w.block1"), "{ours}, {theirs}");
        assert_eq!(digest(vec!["a".into(), "b".into()]), digest(vec!["b".into(), "a".into()]));
        assert_ne!(digest(vec!["a".into(), "b".into()]), digest(vec!["a".into(), "c".into()]));
    }
}
