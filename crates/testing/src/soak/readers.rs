//! Readers of files and text.

use std::hint::black_box;
use std::path::Path;

use base::Endpoint;
use data::{Dataset, DatasetKind, FeedDesc, MultiSlot, Native, Positions, Records, Slot};
use program::{Attr, Net, OpDesc, Program, layers, stream};
use protocol::rendezvous::{Gathering, Place, RendezvousReply, Report, Side};
use tensor::{Rows, Tensor, Value};
use wire::ConnId;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::Target;
use crate::linear::Linear;

/// `__model__`: the bytes of a program, and what is done with one that can be read.
pub(super) fn program() -> Target {
    let plain = Linear::default().build().0;
    let table = Linear { table: true, is_distributed: true, halving: true }.build().0;
    let nets = [plain, table];
    let inputs = nets.iter().flat_map(|net| [net.main.to_bytes(), net.startup.to_bytes()]);
    Target {
        name: "program",
        inputs: inputs.collect(),
        words: &[b"mul", b"lookup_table", b"shape", b"sub_block", b"w", b"@GRAD", b"\x80\x80\x80"],
        read: Box::new(|bytes: &[u8]| {
            let Ok(program) = Program::from_bytes(bytes) else { return };
            black_box(program.to_bytes());
            black_box(program.to_string());
            let last = program.block(0).ops.last().and_then(|op| op.writes().next());
            if let Some(last) = last {
                black_box(program.prune(&[last], &[]).is_ok());
            }
        }),
        share: 115,
    }
}

/// Programs whose ops run blocks: a program that can be read ends, however its blocks are
/// connected.
pub(super) fn blocks() -> Target {
    let mut warmed = Net::default();
    layers::linear_lr_warmup(&mut warmed.builder(), 0.1f32, 3.0, 0.01, 0.1).expect("a schedule");
    let mut nested = Program::default();
    for around in 0..3 {
        let inside = nested.append_block(around);
        let runs = Attr::Block(inside as i32);
        let op = OpDesc::new("conditional_block").input("Cond", "c").attr("sub_block", runs);
        let listed = Attr::Blocks(vec![inside as i32]);
        let serves = OpDesc::new("listen_and_serv").attr("optimize_blocks", listed);
        nested.block_mut(around).ops.extend([op, serves]);
    }
    Target {
        name: "blocks",
        inputs: vec![warmed.main.to_bytes(), nested.to_bytes()],
        // Attributes of types INT, BLOCK and BLOCKS, and the blocks 0 and 1 in them.
        words: &[
            b"sub_block",
            b"\x10\x00\x18\x00",
            b"\x10\x00\x18\x01",
            b"\x10\x08\x60\x00",
            b"\x10\x08\x60\x01",
            b"\x10\x0a\x72\x01\x00",
        ],
        read: Box::new(|bytes: &[u8]| {
            let Ok(program) = Program::from_bytes(bytes) else { return };
            let mut n_left = 10_000;
            assert!(ends(&program, 0, 0, &mut n_left), "a block runs one around it");
        }),
        share: 40,
    }
}

/// Whether running a block, and in it the blocks that its ops would run, ends.
fn ends(program: &Program, block: usize, depth: usize, n_left: &mut usize) -> bool {
    if depth > program.blocks().len() {
        return false;
    }
    let run = program.block(block).ops.iter().filter_map(|op| op.attrs.block("sub_block").ok());
    for inside in run.filter(|&inside| inside < program.blocks().len()) {
        *n_left = n_left.saturating_sub(1);
        if *n_left > 0 && !ends(program, inside, depth + 1, n_left) {
            return false;
        }
    }
    true
}

/// Saved variables: tensors, keyed rows, and several in one file.
pub(super) fn variables() -> Target {
    let tensor = Tensor::new([3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("six");
    let ints = Tensor::full([4], 7i64);
    let rows = Rows { ids: vec![3, 9, 1 << 40], height: 1 << 41, value: tensor.clone() };
    let value = |value: Value| stream::to_bytes(&value).unwrap_or_default();
    let (one, two) = (value(tensor.into()), value(ints.into()));
    let both = [one.clone(), two.clone()].concat();
    Target {
        name: "variables",
        inputs: vec![one, two, value(Value::Rows(rows)), both],
        words: &[b"\x08\x05\x10\x03\x10\x02", b"\x08\x03", b"\x10\x80\x80\x80\x80\x08"],
        read: Box::new(|bytes: &[u8]| {
            black_box(stream::tensor_from_bytes(bytes).is_ok());
            black_box(stream::rows_from_bytes(bytes).is_ok());
            black_box(stream::combined_from_bytes(bytes, 2).is_ok());
            if let Ok(value) = stream::value_from_bytes(bytes) {
                black_box(stream::to_bytes(&value));
            }
        }),
        share: 155,
    }
}

/// Descriptions of data as Fluid's tools write them.
pub(super) fn feed_desc() -> Target {
    let text = b"name: \"MultiSlotDataFeed\"\nbatch_size: 32\nmulti_slot_desc {\n slots { name: \
        \"words\" type: \"uint64\" is_dense: false is_used: true }\n slots { name: 'x' type: \
        'float' is_dense: true is_used: true shape: 2 }\n}\npipe_command: \"cat\"\n";
    Target {
        name: "feed_desc",
        inputs: vec![text.to_vec()],
        words: &[b"{", b"}", b"\"", b"slots", b":", b"shape", b"99999999999999999999", b"\\"],
        read: Box::new(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(desc) = text.parse::<FeedDesc>() {
                black_box(format!("{desc:?}"));
            }
        }),
        share: 50,
    }
}

/// Lines of counted slots.
pub(super) fn text() -> Target {
    let slots = [Slot::ids("a"), Slot::floats("x").dense(&[2]), Slot::ids("b"), Slot::floats("y")];
    let plain = MultiSlot::new(&slots).expect("four slots");
    let named = MultiSlot::new(&slots).expect("four slots").with_names(true, true);
    let line = b"2 7 18446744073709551615 2 0.5 -1e-3 1 0 3 1 2 3".to_vec();
    let with_names = b"1 id_1 1 shown:1 2 7 9 2 .5 1 1 0 1 inf".to_vec();
    Target {
        name: "text",
        inputs: vec![line, with_names, b"1 1".to_vec()],
        words: &[b" ", b"-", b"nan", b"1e999", b"9223372036854775808", b"\t", b"\r", b"0"],
        read: Box::new(move |bytes: &[u8]| {
            let mut records = Records::default();
            for line in bytes.split(|&byte| byte == b'\n') {
                for parser in [&plain, &named] {
                    records.clear();
                    if parser.parse(line, &mut records).is_ok() {
                        records.commit();
                    }
                }
            }
            black_box(records.len());
        }),
        share: 130,
    }
}

/// The state that servers keep of a trainer: its state at a cut, and the journal of its script.
pub(super) fn kept() -> Target {
    Target {
        name: "kept",
        inputs: train::kept::examples(),
        words: &[b"\x01", b"\x00\x00\x00\x00\x00\x00\x00\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff"],
        read: Box::new(|bytes: &[u8]| {
            black_box(train::kept::read(bytes).is_ok());
        }),
        share: 50,
    }
}

/// Where readers stand, as trainers keep it in the state of a cut.
pub(super) fn positions() -> Target {
    let mut dataset = Dataset::new(DatasetKind::Queue);
    let settings = dataset.settings_mut();
    (settings.slots, settings.files) = (vec![Slot::ids("c")], vec!["/nowhere".to_string(); 3]);
    let begun = |dataset: &mut Dataset, n| dataset.start_at(n, None).expect("slots and files").1;
    let (one, three) = (begun(&mut dataset, 1), begun(&mut dataset, 3));
    Target {
        name: "positions",
        inputs: vec![one.to_bytes(), three.to_bytes()],
        words: &[b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x01"],
        read: Box::new(|bytes: &[u8]| {
            if let Ok(positions) = Positions::from_bytes(bytes) {
                assert_eq!(positions.to_bytes(), bytes);
                black_box(positions.n_samples());
            }
        }),
        share: 10,
    }
}

fn reader(words: &[&str]) -> Native {
    Native::from_words(words).expect("good words").expect("one of ours")
}

/// Tables as text.
pub(super) fn csv() -> Target {
    let words = ["csv-reader", "label=click:id", "x=x,y", "site=site:hash/100"];
    let readers = [reader(&words), reader(&["criteo-reader", "1000"])];
    let table = b"click,x,y,site\n1,0.5,2,abc\n0,-1,3e4,\"a,b\"\n0,1,1,\n".to_vec();
    let criteo = b"1\t1\t2\t\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\n".to_vec();
    Target {
        name: "csv",
        inputs: vec![table, criteo],
        words: &[b",", b"\"", b"\n", b"\r\n", b"click", b"site", b"\xff", b"1e400", b"\t"],
        read: Box::new(move |bytes: &[u8]| {
            for reader in &readers {
                black_box(reader.run(bytes, &mut Vec::new()).is_ok());
            }
        }),
        share: 100,
    }
}

/// Tables in columns.
pub(super) fn parquet() -> Target {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests/fixtures");
    let file = |name| std::fs::read(folder.join(name)).expect("a fixture of ours");
    let reader = reader(&["parquet-reader", "label=label:id", "x=price,small", "c=city:hash/100"]);
    Target {
        name: "parquet",
        inputs: vec![file("clicks.parquet"), file("clicks-zstd.parquet")],
        words: &[b"PAR1", b"click", b"site", b"\x15\x00", b"\x19\x1c"],
        read: Box::new(move |bytes: &[u8]| {
            black_box(reader.run(bytes, &mut Vec::new()).is_ok());
        }),
        share: 20,
    }
}

/// Lists of files, as object stores and name nodes send them.
pub(super) fn lists() -> Target {
    let s3 = b"<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>a&amp;b</NextContinuationToken><Contents><Key>a%20b/part-0</Key></Contents>\
        <Contents><Key>&#233;&lt;</Key></Contents></ListBucketResult>";
    let node = br#"{"FileStatuses":{"FileStatus":[{"pathSuffix":"part-0","type":"FILE","length":7,
        "modificationTime":1700000000000},{"pathSuffix":"d","type":"DIRECTORY","length":0,"modificationTime":1}]}}"#;
    Target {
        name: "lists",
        inputs: vec![s3.to_vec(), node.to_vec()],
        words: &[
            b"<Key>",
            b"</Key>",
            b"%",
            b"%zz",
            b"&#x110000;",
            b"&",
            b"18446744073709551616",
            b"null",
        ],
        read: Box::new(|bytes: &[u8]| {
            black_box(data::answers::lists(bytes));
        }),
        share: 20,
    }
}

/// Packed text.
pub(super) fn zstd() -> Target {
    /// A few damaged bytes may stand for gigabytes.
    const MAX: u64 = 1 << 20;
    let text: Vec<u8> =
        (0..300).flat_map(|n| format!("1 {n} 2 {}\n", n % 7).into_bytes()).collect();
    let packed = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
    Target {
        name: "zstd",
        inputs: vec![[packed.clone(), packed.clone()].concat(), packed],
        words: &[b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\xff\xff\xff\xff", b"\x00"],
        read: Box::new(|bytes: &[u8]| {
            black_box(data::answers::unpack_zstd(bytes, MAX).is_ok());
        }),
        share: 10,
    }
}

/// Messages of processes before they know the others.
pub(super) fn rendezvous() -> Target {
    let endpoint: Endpoint = "10.0.0.1:6174".parse().expect("an end point");
    let report = Report {
        job: "job".into(),
        n: 4,
        n_servers: Some(2),
        side: Side::Server,
        rank: Some(1),
        name: "job-server-1".into(),
        endpoint: endpoint.clone(),
        is_fixed: true,
    };
    let place = Place { id: 1, servers: vec![endpoint.clone(); 2], trainers: vec![endpoint] };
    let answers = [
        RendezvousReply::Placed(place),
        RendezvousReply::Waiting("trainer 1".into()),
        RendezvousReply::Taken,
    ];
    let answers = answers.iter().map(|answer| answer.to_line().into_bytes());
    let read = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let _ = black_box(RendezvousReply::read(&text));
        let mut gathering = Gathering::default();
        for (at, line) in text.lines().enumerate() {
            if let Ok(report) = Report::read(line) {
                black_box(gathering.report(ConnId(at as u64), report));
                black_box((gathering.missing(), gathering.places()));
            }
        }
    };
    let second = Report { rank: None, side: Side::Trainer, is_fixed: false, ..report.clone() };
    let two = report.to_line() + &second.to_line() + &second.to_line();
    Target {
        name: "rendezvous",
        inputs: std::iter::once(two.into_bytes()).chain(answers).collect(),
        words: &[b"server", b"trainer", b"fixed", b"free", b"\t-\t", b"placed", b"4294967295"],
        read: Box::new(read),
        share: 10,
    }
}
