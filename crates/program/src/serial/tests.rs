//! The program codec: hand-made bytes, unknown fields, refusals, random damage.

use tensor::DType;

use super::wire::WireWriter;
use crate::attr::Attr;
use crate::block::{Block, OpDesc};
use crate::error::Error;
use crate::program::Program;
use crate::var::{Meta, VarDesc, VarKind};

/// Every kind of variable and attribute, in two blocks.
fn rich_program() -> Program {
    let mut outer = Block::new(0, -1);
    for (i, kind) in VarKind::ALL.into_iter().enumerate() {
        let mut var = VarDesc::new(&format!("v{i}"), Meta { kind, ..Meta::default() });
        if kind.has_tensor() {
            var.meta.dtype = DType::I64;
            var.meta.dims = vec![-1, 3];
            var.meta.lod_level = i32::from(kind != VarKind::SelectedRows);
        }
        var.persistable = i % 2 == 0;
        var.need_check_feed = i == 0;
        outer.put_var(var);
    }
    let op = OpDesc::new("everything")
        .input("A", vec!["v0".to_string(), "v1".to_string()])
        .input("B", Vec::new())
        .output("Out", "v0")
        .attr("int", -3)
        .attr("float", 0.1f32)
        .attr("text", "a \"quoted\"\nline")
        .attr("ints", vec![1, -2])
        .attr("floats", vec![0.5f32, f32::MAX])
        .attr("texts", vec!["x".to_string(), String::new()])
        .attr("bool", true)
        .attr("bools", vec![true, false])
        .attr("block", Attr::Block(1))
        .attr("long", i64::MIN)
        .attr("blocks", Attr::Blocks(vec![1]))
        .attr("longs", vec![i64::MAX, -1]);
    outer.ops.push(OpDesc { is_target: true, ..op });
    let mut inner = Block::new(1, 0);
    inner.forward_idx = 0;
    inner.ops.push(OpDesc::new("inside"));
    let mut program = Program::from_blocks(vec![outer, inner]);
    program.format_version = 1_008_005;
    program
}

#[test]
fn every_kind_of_variable_and_attribute_survives() {
    let program = rich_program();
    let bytes = program.to_bytes();
    let back = Program::from_bytes(&bytes).unwrap();
    assert_eq!(back, program);
    assert_eq!(back.to_bytes(), bytes, "writing is stable");
}

#[test]
fn a_new_program_survives() {
    let bytes = Program::default().to_bytes();
    // Block 0 with parent -1, version 0.
    let mut expected = vec![0x0a, 13, 0x08, 0, 0x10];
    expected.extend([0xff; 9]);
    expected.extend([0x01, 0x22, 2, 0x08, 0]);
    assert_eq!(bytes, expected);
    assert_eq!(Program::from_bytes(&bytes).unwrap(), Program::default());
}

fn message(fields: impl FnOnce(&mut WireWriter)) -> Vec<u8> {
    let mut writer = WireWriter::default();
    fields(&mut writer);
    writer.finish(&[])
}

fn block_with(idx: i64, parent: i64, more: impl FnOnce(&mut WireWriter)) -> Vec<u8> {
    message(|block| {
        block.int(1, idx);
        block.int(2, parent);
        more(block);
    })
}

/// A message with one more field than its reader knows.
fn with_unknown(fields: impl FnOnce(&mut WireWriter)) -> Vec<u8> {
    message(|writer| {
        fields(writer);
        writer.bytes(99, b"later");
    })
}

#[test]
fn unknown_fields_of_every_message_survive() {
    let tensor = with_unknown(|w| w.int(1, 5));
    let lod_tensor = with_unknown(|w| w.bytes(1, &tensor));
    let var_type = with_unknown(|w| {
        w.int(1, 7);
        w.bytes(3, &lod_tensor);
    });
    let var = with_unknown(|w| {
        w.bytes(1, b"x");
        w.bytes(2, &var_type);
    });
    let port = with_unknown(|w| w.bytes(1, b"X"));
    let attr = with_unknown(|w| {
        w.bytes(1, b"axis");
        w.int(2, 0);
    });
    let later_attr = with_unknown(|w| {
        w.bytes(1, b"of a newer type");
        w.int(2, 12);
    });
    let op = with_unknown(|w| {
        w.bytes(1, &port);
        w.bytes(2, &port);
        w.bytes(3, b"mul");
        w.bytes(4, &attr);
        w.bytes(4, &later_attr);
    });
    let block = block_with(0, -1, |w| {
        w.bytes(3, &var);
        w.bytes(4, &op);
        w.bytes(99, b"later");
    });
    let version = with_unknown(|w| w.int(1, 7));
    let bytes = with_unknown(|w| {
        w.bytes(1, &block);
        w.bytes(3, b"\x12\x055.0.1"); // op_compatible_map
        w.bytes(4, &version);
    });
    let program = Program::from_bytes(&bytes).unwrap();
    let written = program.to_bytes();
    let n_kept = written.windows(5).filter(|window| window == b"later").count();
    assert_eq!(n_kept, 12);
    assert_eq!(Program::from_bytes(&written).unwrap(), program);
}

#[test]
fn the_version_may_be_in_either_field() {
    let version = message(|w| w.int(1, 1_005_000));
    for number in [2, 4] {
        let bytes = message(|w| {
            w.bytes(number, &version);
            w.bytes(1, &block_with(0, -1, |_| {}));
        });
        assert_eq!(Program::from_bytes(&bytes).unwrap().format_version, 1_005_000);
    }
}

#[test]
fn lists_may_be_packed_and_fields_in_any_order() {
    let attr = message(|w| {
        w.bytes(6, &[1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        w.int(6, 3);
        w.int(2, 3);
        w.bytes(1, b"ints");
    });
    let floats = message(|w| {
        w.bytes(7, &[0, 0, 0, 0x3f, 0, 0, 0x80, 0x3f]);
        w.int(2, 4);
        w.bytes(1, b"floats");
    });
    let op = message(|w| {
        w.bytes(4, &attr);
        w.bytes(4, &floats);
        w.bytes(3, b"op");
    });
    let tensor = message(|w| {
        w.bytes(2, &[4, 5]);
        w.int(1, 6);
    });
    let var_type = message(|w| {
        w.bytes(3, &message(|w| w.bytes(1, &tensor)));
        w.int(1, 7);
    });
    let var = message(|w| {
        w.bytes(2, &var_type);
        w.bytes(1, b"x");
    });
    let block = message(|w| {
        w.bytes(4, &op);
        w.bytes(3, &var);
        w.int(2, -1);
        w.int(1, 0);
    });
    let program = Program::from_bytes(&message(|w| w.bytes(1, &block))).unwrap();
    let op = &program.block(0).ops[0];
    assert_eq!(op.attrs.get("ints"), Some(&Attr::Ints(vec![1, 2, -1, 3])));
    assert_eq!(op.attrs.get("floats"), Some(&Attr::Floats(vec![0.5, 1.0])));
    assert_eq!(program.block(0).var("x").unwrap().meta, Meta::dense(DType::F64, &[4, 5]));
}

#[track_caller]
fn refuses(bytes: &[u8], at: usize) {
    let error = Program::from_bytes(bytes).unwrap_err();
    assert!(matches!(error, Error::BadProgram { offset, .. } if offset == at), "{error}");
}

#[test]
fn refuses_blocks_that_walkers_would_not_come_back_from() {
    let runs = |target: i64| {
        let attr = message(|w| {
            w.bytes(1, b"sub_block");
            w.int(2, 8);
            w.int(12, target);
        });
        message(|w| {
            w.bytes(3, b"while");
            w.bytes(4, &attr);
        })
    };
    let one = |block: &[u8]| message(|w| w.bytes(1, block));
    refuses(b"", 0);
    refuses(&one(&block_with(1, -1, |_| {})), 0);
    refuses(&one(&block_with(0, 0, |_| {})), 0);
    refuses(&one(&block_with(0, -2, |_| {})), 0);
    refuses(&one(&block_with(0, -1, |w| w.int(5, 1))), 0);
    for target in [0, 1, -1, i64::MAX] {
        refuses(&one(&block_with(0, -1, |w| w.bytes(4, &runs(target)))), 0);
    }
    let chain = message(|w| {
        for idx in 0..100 {
            w.bytes(1, &block_with(idx, idx - 1, |_| {}));
        }
    });
    assert!(matches!(Program::from_bytes(&chain), Err(Error::BadProgram { .. })));
}

#[test]
fn refuses_what_lacks_its_name_or_type() {
    let one = |number: u32, inner: &[u8]| {
        message(|w| w.bytes(1, &block_with(0, -1, |w| w.bytes(number, inner))))
    };
    refuses(&one(3, b""), 17);
    refuses(&one(3, &message(|w| w.bytes(1, b"x"))), 17);
    refuses(&one(4, b""), 17);
    refuses(&one(4, &message(|w| w.bytes(3, b"\xff"))), 19);
    let kind = |code| message(|w| w.bytes(2, &message(|w| w.int(1, code))));
    refuses(&one(3, &[message(|w| w.bytes(1, b"x")), kind(3)].concat()), 22);
    refuses(b"hello, I am no program", 2);
}

/// A small generator with a fixed start, so that a failure repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Damaged bytes give an error or a program that writes and reads; they never panic or hang.
#[test]
fn survives_random_damage() {
    let seed_bytes = rich_program().to_bytes();
    let mut dice = Dice(0x5eed);
    let mut n_accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = seed_bytes.clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len());
            match dice.below(5) {
                0 => bytes[at] = dice.below(256) as u8,
                1 => bytes[at] ^= 1 << dice.below(8),
                2 => bytes.truncate(at.max(1)),
                3 => bytes.insert(at, [0xff, 0x00, 0x7f][dice.below(3)]),
                _ => {
                    let end = (at + 1 + dice.below(32)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        match Program::from_bytes(&bytes) {
            Ok(program) => {
                n_accepted += 1;
                let again = Program::from_bytes(&program.to_bytes()).unwrap();
                // Comparing bytes, not programs: a damaged float may be NaN.
                assert_eq!(again.to_bytes(), program.to_bytes());
            }
            Err(Error::BadProgram { offset, .. }) => assert!(offset <= bytes.len()),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(n_accepted > 100, "the damage must not be too obvious: {n_accepted}");
}
