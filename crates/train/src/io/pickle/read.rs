//! Arrays out of a pickle.

use std::collections::HashMap;
use std::rc::Rc;

use tensor::{DType, Shape, Tensor};

use super::{DTYPE, ENCODE, LETTERS, NDARRAY, RECONSTRUCT};

/// Where it went wrong, and why.
type Failure = (usize, &'static str);
type PickleResult<T> = Result<T, &'static str>;

/// The arrays of a pickled dictionary.
pub(crate) fn read(bytes: &[u8]) -> Result<HashMap<String, Tensor>, Failure> {
    let mut machine = Machine { bytes, at: 0, ..Machine::default() };
    loop {
        let offset = machine.at;
        match machine.step() {
            Ok(false) => {}
            Ok(true) => return machine.result().map_err(|problem| (offset, problem)),
            Err(problem) => return Err((offset, problem)),
        }
    }
}

/// An item of the stack. Copying one is cheap: large contents are shared.
#[derive(Clone)]
enum Item {
    Mark,
    None,
    Bool(bool),
    Int(i64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    Tuple(Rc<Tuple>),
    Global(&'static str),
    /// Something that changes after it was made: its place in `objects`.
    Object(usize),
}

struct Tuple {
    items: Vec<Item>,
    depth: usize,
}

/// Arrays need tuples in tuples twice; a bound keeps freeing them from overflowing the stack.
const TUPLE_DEPTH_MAX: usize = 8;

enum Object {
    Dict(Vec<(Rc<str>, usize)>),
    DType(DType),
    Array(Option<Tensor>),
}

#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    memo: HashMap<u32, Item>,
    objects: Vec<Object>,
    /// Bytes copied so far.
    n_copied: usize,
}

const CUT: &str = "the pickle is cut short";
const FORM: &str = "not a pickled dictionary of arrays";

impl<'a> Machine<'a> {
    /// Runs one opcode; true at the last.
    fn step(&mut self) -> PickleResult<bool> {
        let opcode = self.take(1)?[0];
        match opcode {
            b'.' => return Ok(true),
            0x80 => drop(self.take(1)?),
            // A frame says how long it is; what is in it says so, too.
            0x95 => drop(self.take(8)?),
            b'}' => {
                self.objects.push(Object::Dict(Vec::new()));
                self.stack.push(Item::Object(self.objects.len() - 1));
            }
            b'(' => self.stack.push(Item::Mark),
            b'q' | b'r' => {
                let slot = self.slot(opcode == b'q')?;
                let top = self.stack.last().ok_or(FORM)?.clone();
                self.memo.insert(slot, top);
            }
            0x94 => {
                let (slot, top) = (self.memo.len() as u32, self.stack.last().ok_or(FORM)?);
                self.memo.insert(slot, top.clone());
            }
            b'h' | b'j' => {
                let slot = self.slot(opcode == b'h')?;
                let item = self.memo.get(&slot).ok_or("it refers to what was never stored")?;
                self.stack.push(item.clone());
            }
            b'R' => self.reduce()?,
            b'b' => self.build()?,
            b's' | b'u' => self.set_items(opcode == b'u')?,
            _ => self.push_value(opcode)?,
        }
        Ok(false)
    }

    /// Opcodes that put a value on the stack and nothing else.
    fn push_value(&mut self, opcode: u8) -> PickleResult<()> {
        let item = match opcode {
            b'N' => Item::None,
            0x88 => Item::Bool(true),
            0x89 => Item::Bool(false),
            b'K' => Item::Int(i64::from(self.take(1)?[0])),
            b'M' => Item::Int(self.int(2)?),
            b'J' => Item::Int(i64::from(self.int(4)? as i32)),
            0x8a => self.long()?,
            b'X' | 0x8c | 0x8d => {
                let n_bytes = if opcode == b'X' { 4 } else { 1 << (3 * (opcode - 0x8c)) };
                let text = std::str::from_utf8(self.counted(n_bytes)?).map_err(|_| FORM)?;
                Item::Text(Rc::from(text))
            }
            // Strings of Python 2, bytes of Python 3.
            b'U' | b'C' => Item::Bytes(Rc::from(self.counted(1)?)),
            b'T' | b'B' => Item::Bytes(Rc::from(self.counted(4)?)),
            0x8e => Item::Bytes(Rc::from(self.counted(8)?)),
            b'c' => self.global()?,
            0x93 => self.stack_global()?,
            b')' => tuple(Vec::new())?,
            0x85..=0x87 => {
                let n = usize::from(opcode - 0x84);
                let start = self.stack.len().checked_sub(n).ok_or(FORM)?;
                tuple(self.stack.split_off(start))?
            }
            b't' => tuple(self.since_mark()?)?,
            _ => return Err("an opcode that arrays do not need"),
        };
        self.stack.push(item);
        Ok(())
    }

    fn take(&mut self, n: usize) -> PickleResult<&'a [u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..n)).ok_or(CUT)?;
        self.at += n;
        Ok(taken)
    }

    /// An unsigned number of up to eight bytes.
    fn int(&mut self, n_bytes: usize) -> PickleResult<i64> {
        let mut wide = [0; 8];
        wide[..n_bytes].copy_from_slice(self.take(n_bytes)?);
        Ok(i64::from_le_bytes(wide))
    }

    fn counted(&mut self, n_bytes: usize) -> PickleResult<&'a [u8]> {
        let length = self.int(n_bytes)?;
        self.take(length as usize)
    }

    fn slot(&mut self, short: bool) -> PickleResult<u32> {
        Ok(self.int(if short { 1 } else { 4 })? as u32)
    }

    fn long(&mut self) -> PickleResult<Item> {
        let bytes = self.counted(1)?;
        let sign = if bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
        let mut wide = [sign; 8];
        wide.get_mut(..bytes.len()).ok_or("a number beyond 64 bits")?.copy_from_slice(bytes);
        Ok(Item::Int(i64::from_le_bytes(wide)))
    }

    /// Two lines: module and name.
    fn global(&mut self) -> PickleResult<Item> {
        let rest = &self.bytes[self.at..];
        for known in [RECONSTRUCT, NDARRAY, DTYPE, ENCODE] {
            let lines = known.replace(' ', "\n") + "\n";
            if rest.starts_with(lines.as_bytes()) {
                self.at += lines.len();
                return Ok(Item::Global(known));
            }
        }
        Err("it asks for something that is not part of an array")
    }

    /// A module and a name from the stack.
    fn stack_global(&mut self) -> PickleResult<Item> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Some(name), Some(module)) = (name.as_text(), module.as_text()) else {
            return Err(FORM);
        };
        // Since version 2 of numpy the module has another name.
        let asked = format!("{} {name}", module.replace("numpy._core.", "numpy.core."));
        let known = [RECONSTRUCT, NDARRAY, DTYPE, ENCODE].into_iter().find(|known| *known == asked);
        known.map(Item::Global).ok_or("it asks for something that is not part of an array")
    }

    /// Counts what is copied: text becomes bytes, bytes an array, each once. A pickle that has the
    /// same bytes copied over and over would fill the memory.
    fn spend(&mut self, n_bytes: usize) -> PickleResult<()> {
        self.n_copied += n_bytes;
        if self.n_copied > 2 * self.bytes.len() {
            return Err("the same bytes over and over");
        }
        Ok(())
    }

    fn pop(&mut self) -> PickleResult<Item> {
        self.stack.pop().ok_or(FORM)
    }

    fn since_mark(&mut self) -> PickleResult<Vec<Item>> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark)).ok_or(FORM)?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    /// The calls an array is made of.
    fn reduce(&mut self) -> PickleResult<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let (Item::Tuple(arguments), Item::Global(function)) = (&arguments, &function) else {
            return Err(FORM);
        };
        let item = match (*function, arguments.items.as_slice()) {
            (RECONSTRUCT, [Item::Global(NDARRAY), _, _]) => {
                self.objects.push(Object::Array(None));
                Item::Object(self.objects.len() - 1)
            }
            (ENCODE, [Item::Text(text), Item::Text(_)]) => {
                let byte = |c: char| u8::try_from(u32::from(c)).map_err(|_| FORM);
                self.spend(text.len())?;
                Item::Bytes(text.chars().map(byte).collect::<PickleResult<Rc<[u8]>>>()?)
            }
            (DTYPE, [letters, _, _]) => {
                let letters = letters.as_text().ok_or(FORM)?;
                let known = LETTERS.iter().find(|(known, _)| *known == letters);
                let (_, dtype) = known.ok_or("an element type that is not known")?;
                self.objects.push(Object::DType(*dtype));
                Item::Object(self.objects.len() - 1)
            }
            _ => return Err(FORM),
        };
        self.stack.push(item);
        Ok(())
    }

    /// Gives a type or an array its state.
    fn build(&mut self) -> PickleResult<()> {
        let state = self.pop()?;
        let (Item::Tuple(state), Some(&Item::Object(target))) = (&state, self.stack.last()) else {
            return Err(FORM);
        };
        match (&self.objects[target], state.items.as_slice()) {
            (Object::DType(_), [Item::Int(_), order, ..]) => match order.as_text() {
                Some("<" | "|" | "=") => Ok(()),
                _ => Err("numbers in big-endian order"),
            },
            (Object::Array(_), [Item::Int(_), shape, Item::Object(dtype), order, data]) => {
                let Object::DType(dtype) = self.objects[*dtype] else { return Err(FORM) };
                if !matches!(order, Item::Bool(false)) {
                    return Err("an array in column-major order");
                }
                let tensor = array(shape, dtype, data)?;
                self.spend(tensor.bytes().len())?;
                self.objects[target] = Object::Array(Some(tensor));
                Ok(())
            }
            _ => Err(FORM),
        }
    }

    fn set_items(&mut self, many: bool) -> PickleResult<()> {
        let pairs = if many {
            self.since_mark()?
        } else {
            let start = self.stack.len().checked_sub(2).ok_or(FORM)?;
            self.stack.split_off(start)
        };
        let Some(&Item::Object(target)) = self.stack.last() else { return Err(FORM) };
        let mut entries = Vec::new();
        for pair in pairs.chunks(2) {
            let [name, Item::Object(value)] = pair else { return Err(FORM) };
            entries.push((Rc::from(name.as_text().ok_or(FORM)?), *value));
        }
        let Object::Dict(dict) = &mut self.objects[target] else { return Err(FORM) };
        dict.extend(entries);
        Ok(())
    }

    fn result(mut self) -> PickleResult<HashMap<String, Tensor>> {
        let (Some(Item::Object(top)), []) = (self.stack.pop(), self.stack.as_slice()) else {
            return Err(FORM);
        };
        let Object::Dict(entries) = std::mem::replace(&mut self.objects[top], Object::Array(None))
        else {
            return Err(FORM);
        };
        let mut arrays = HashMap::new();
        for (name, value) in entries {
            let Object::Array(array) = &mut self.objects[value] else { return Err(FORM) };
            arrays.insert(name.to_string(), array.take().ok_or("an array that was listed before")?);
        }
        Ok(arrays)
    }
}

impl Item {
    fn as_text(&self) -> Option<&str> {
        match self {
            Item::Text(text) => Some(text),
            Item::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

fn tuple(items: Vec<Item>) -> PickleResult<Item> {
    let depth_of = |item: &Item| match item {
        Item::Tuple(tuple) => tuple.depth,
        _ => 0,
    };
    let depth = 1 + items.iter().map(depth_of).max().unwrap_or(0);
    if depth > TUPLE_DEPTH_MAX {
        return Err("tuples nested too deep");
    }
    Ok(Item::Tuple(Rc::new(Tuple { items, depth })))
}

fn array(shape: &Item, dtype: DType, data: &Item) -> PickleResult<Tensor> {
    let (Item::Tuple(shape), Item::Bytes(data)) = (shape, data) else { return Err(FORM) };
    let dims = shape.items.iter().map(|item| match item {
        Item::Int(dim) => Ok(*dim),
        _ => Err(FORM),
    });
    let mut dims = dims.collect::<PickleResult<Vec<i64>>>()?;
    // Version 2 saves numbers as arrays without dimensions; they have one number here.
    if dims.is_empty() {
        dims.push(1);
    }
    let shape = Shape::from_dims(&dims).map_err(|_| "a shape that no array has")?;
    Tensor::from_bytes(dtype, shape, data).map_err(|_| "bytes that do not fill the array's shape")
}
