//! The inputs and outputs of the operators of Fluid 1.8.5: ports, attributes, and the defaults of
//! attributes. `protos.txt` was written by the real Fluid; see
//! `crates/testing/golden/gen/op_protos.py`.

use std::sync::OnceLock;

use crate::attr::Attr;
use crate::block::OpDesc;
use crate::error::{Error, Result};

/// A place of an operator for variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name in programs.
    pub name: &'static str,
    /// It takes more than one variable.
    pub duplicable: bool,
    /// It may be left out.
    pub dispensable: bool,
    /// Only the gradient reads what is written there.
    pub intermediate: bool,
}

/// An attribute that an operator knows.
#[derive(Clone, Debug, PartialEq)]
pub struct AttrRule {
    /// Its name in programs.
    pub name: &'static str,
    /// Its type's number in programs.
    pub code: usize,
    /// Its default.
    pub default: Option<Attr>,
}

/// The inputs, outputs and attributes of one operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Proto {
    /// The operator's name in programs.
    pub kind: &'static str,
    /// Its inputs.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
    /// Everything else that can be said to it.
    pub attrs: Vec<AttrRule>,
}

/// The names of the attribute types, by their number in programs.
pub const ATTR_TYPES: [&str; 12] = [
    "int", "float", "string", "ints", "floats", "strings", "boolean", "booleans", "block", "long",
    "blocks", "longs",
];

/// Every operator of Fluid with ports, sorted by name, whether it is here or not.
pub fn protos() -> &'static [Proto] {
    static PROTOS: OnceLock<Vec<Proto>> = OnceLock::new();
    PROTOS.get_or_init(|| include_str!("protos.txt").lines().map(Proto::read).collect())
}

/// The inputs and outputs of an operator; `None` for gradients, and for operators that Fluid has
/// not.
pub fn proto(kind: &str) -> Option<&'static Proto> {
    let protos = protos();
    protos.binary_search_by(|proto| proto.kind.cmp(kind)).ok().map(|at| &protos[at])
}

impl Proto {
    fn read(line: &'static str) -> Self {
        let mut parts = line.split('|');
        let mut next = || parts.next().unwrap_or_default();
        let kind = next();
        let ports = |part: &'static str| part.split_whitespace().map(Port::read).collect();
        let (inputs, outputs) = (ports(next()), ports(next()));
        Self {
            kind,
            inputs,
            outputs,
            attrs: next().split_whitespace().map(AttrRule::read).collect(),
        }
    }

    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<&AttrRule> {
        self.attrs.iter().find(|rule| rule.name == name)
    }

    /// Gives an op the defaults of missing attributes, and each attribute the type that it has by
    /// rule.
    pub fn complete(&self, op: &mut OpDesc) -> Result<()> {
        for rule in &self.attrs {
            match (op.attrs.get(rule.name), &rule.default) {
                (Some(value), _) => {
                    let value = rule.fit(value.clone())?;
                    op.attrs.set(rule.name, value);
                }
                (None, Some(value)) => op.attrs.set(rule.name, value.clone()),
                (None, None) => {}
            }
        }
        Ok(())
    }
}

impl Port {
    fn read(text: &'static str) -> Self {
        let name = text.trim_end_matches(['*', '?', '~']);
        let mark = |mark| text.contains(mark);
        let duplicable = mark('*');
        let dispensable = mark('?');
        let intermediate = mark('~');
        Self { name, duplicable, dispensable, intermediate }
    }
}

impl AttrRule {
    fn read(text: &'static str) -> Self {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let (kind, default) = match rest.split_once('=') {
            Some((kind, value)) => (kind, Some(value)),
            None => (rest, None),
        };
        let code = ATTR_TYPES.iter().position(|known| *known == kind).unwrap_or_default();
        Self { name, code, default: default.and_then(|value| read_value(code, value)) }
    }

    /// The value in the type of this attribute: numbers become wider, none becomes another.
    pub fn fit(&self, value: Attr) -> Result<Attr> {
        let ints = |values: &[i32]| values.iter().map(|&v| i64::from(v)).collect::<Vec<_>>();
        let floats = |values: &[i32]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
        Ok(match (self.code, value) {
            (code, value) if code == value.code() => value,
            (0, Attr::Bool(flag)) => Attr::Int(i32::from(flag)),
            (0, Attr::Long(number)) if i32::try_from(number).is_ok() => Attr::Int(number as i32),
            (1, Attr::Int(number)) => Attr::Float(number as f32),
            (1, Attr::Long(number)) => Attr::Float(number as f32),
            (4, Attr::Ints(numbers)) => Attr::Floats(floats(&numbers)),
            (5, Attr::Ints(none)) if none.is_empty() => Attr::Strs(Vec::new()),
            (6, Attr::Int(number @ (0 | 1))) => Attr::Bool(number == 1),
            (7, Attr::Ints(none)) if none.is_empty() => Attr::Bools(Vec::new()),
            (8, Attr::Int(number)) => Attr::Block(number),
            (9, Attr::Int(number)) => Attr::Long(i64::from(number)),
            (10, Attr::Ints(numbers)) => Attr::Blocks(numbers),
            (11, Attr::Ints(numbers)) => Attr::Longs(ints(&numbers)),
            (_, other) => {
                let expected = format!("of type {}", ATTR_TYPES[self.code]);
                let (attr, actual) = (self.name.to_string(), format!("{other:?}"));
                return Err(Error::BadAttr { attr, expected, actual });
            }
        })
    }
}

/// A value as `protos.txt` has it: a number, a truth value, a text in quotes, or a list of those.
fn read_value(code: usize, text: &str) -> Option<Attr> {
    let items = || {
        let inside = text.trim_start_matches('[').trim_end_matches(']');
        inside.split(',').filter(|item| !item.is_empty())
    };
    let unquoted = |text: &str| text.trim_matches('"').to_string();
    Some(match code {
        0 => Attr::Int(text.parse().ok()?),
        1 => Attr::Float(text.parse().ok()?),
        2 => Attr::Str(unquoted(text)),
        3 => Attr::Ints(items().map(|item| item.parse().ok()).collect::<Option<_>>()?),
        4 => Attr::Floats(items().map(|item| item.parse().ok()).collect::<Option<_>>()?),
        5 => Attr::Strs(items().map(unquoted).collect()),
        6 => Attr::Bool(text == "true"),
        7 => Attr::Bools(items().map(|item| item == "true").collect()),
        9 => Attr::Long(text.parse().ok()?),
        11 => Attr::Longs(items().map(|item| item.parse().ok()).collect::<Option<_>>()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_attributes_are_read() {
        let sum = proto("sum").expect("Fluid has it");
        assert!(sum.inputs[0].duplicable && !sum.outputs[0].duplicable);
        let dropout = proto("dropout").expect("Fluid has it");
        assert!(dropout.inputs[1].dispensable && dropout.outputs[1].intermediate);
        let mul = proto("mul").expect("Fluid has it");
        let default = |name| mul.attr(name).and_then(|rule| rule.default.clone());
        assert_eq!(default("x_num_col_dims"), Some(Attr::Int(1)));
        assert_eq!(default("scale_y"), Some(Attr::Floats(vec![1.0])));
        assert!(proto("mul_grad").is_none());
    }

    #[test]
    fn every_value_of_the_table_is_of_its_type() {
        for proto in protos() {
            for rule in &proto.attrs {
                let code = rule.default.as_ref().map_or(rule.code, Attr::code);
                assert_eq!(code, rule.code, "{} {}", proto.kind, rule.name);
            }
        }
        assert!(protos().windows(2).all(|pair| pair[0].kind < pair[1].kind));
    }

    #[test]
    fn an_op_gets_what_nobody_set_and_keeps_what_was() {
        let mut op = OpDesc::new("mul").attr("x_num_col_dims", 2).attr("scale_x", 3);
        proto("mul").expect("Fluid has it").complete(&mut op).expect("it fits");
        assert_eq!(op.attrs.get("x_num_col_dims"), Some(&Attr::Int(2)));
        assert_eq!(op.attrs.get("y_num_col_dims"), Some(&Attr::Int(1)));
        assert_eq!(op.attrs.get("scale_x"), Some(&Attr::Float(3.0)));
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let mul = proto("mul").expect("Fluid has it");
        let error = mul.complete(&mut OpDesc::new("mul").attr("x_num_col_dims", "two"));
        assert!(matches!(error, Err(Error::BadAttr { ref attr, .. }) if attr == "x_num_col_dims"));
    }
}
