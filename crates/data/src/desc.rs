//! A dataset as Fluid writes it down: the text form of its `DataFeedDesc`.

use std::fmt::Write;

use crate::settings::Settings;
use crate::slot::{Slot, SlotKind};

impl Settings {
    /// The description; `class` is what Fluid calls the reader, e.g. `MultiSlotDataFeed`.
    pub fn desc(&self, class: &str) -> String {
        let mut text = format!("name: {}\nbatch_size: {}\n", quoted(class), self.batch_size);
        if !self.slots.is_empty() {
            let slots: String = self.slots.iter().map(slot).collect();
            let _ = write!(text, "multi_slot_desc {{\n{slots}}}\n");
        }
        let _ = writeln!(text, "pipe_command: {}", quoted(&self.pipe_command));
        if let Some(rank_offset) = &self.rank_offset {
            let _ = writeln!(text, "rank_offset: {}", quoted(rank_offset));
        }
        if let Some(size) = self.pv_batch_size {
            let _ = writeln!(text, "pv_batch_size: {size}");
        }
        text
    }
}

fn slot(slot: &Slot) -> String {
    let kind = match slot.kind {
        SlotKind::Float => "float",
        SlotKind::Id => "uint64",
    };
    let mut text = format!("  slots {{\n    name: {}\n    type: \"{kind}\"\n", quoted(&slot.name));
    if slot.dense.is_some() {
        text += "    is_dense: true\n";
    }
    if slot.used {
        text += "    is_used: true\n";
    }
    for dim in slot.dense.iter().flatten() {
        let _ = writeln!(text, "    shape: {dim}");
    }
    text + "  }\n"
}

/// A text between quotation marks, as protobuf escapes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' => out += "\\\"",
            b'\'' => out += "\\'",
            b'\\' => out += "\\\\",
            b'\n' => out += "\\n",
            b'\r' => out += "\\r",
            b'\t' => out += "\\t",
            b' '..=b'~' => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_fluid_prints() {
        let settings = Settings {
            slots: vec![Slot::floats("d").dense(&[-1, 2]), Slot::ids("C1")],
            batch_size: 7,
            pipe_command: "python \"x\" \u{e9}".to_string(),
            rank_offset: Some("ro".to_string()),
            pv_batch_size: Some(4),
            ..Settings::default()
        };
        let expected = r#"name: "MultiSlotDataFeed"
batch_size: 7
multi_slot_desc {
  slots {
    name: "d"
    type: "float"
    is_dense: true
    is_used: true
    shape: -1
    shape: 2
  }
  slots {
    name: "C1"
    type: "uint64"
    is_used: true
  }
}
pipe_command: "python \"x\" \303\251"
rank_offset: "ro"
pv_batch_size: 4
"#;
        assert_eq!(settings.desc("MultiSlotDataFeed"), expected);
    }
}
