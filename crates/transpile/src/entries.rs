//! Entry rules of tables, as their look-ups say them.

use std::collections::BTreeMap;

use program::Program;
use program::distributed::{ENTRY, EntryRule};

use crate::error::{Error, Result};

/// Entry rules of tables, by the tables' names: what their look-ups say.
pub(super) fn entries(main: &Program) -> Result<BTreeMap<String, String>> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut free = Vec::new();
    for op in main.blocks().iter().flat_map(|block| &block.ops).filter(|op| op.traits().looks_up) {
        let Some(table) = op.input_names("W").first() else { continue };
        let rule = op.attrs.str(ENTRY, "none")?;
        if rule == "none" {
            free.push(table);
            continue;
        }
        let (table, rule) = (table.clone(), rule.to_string());
        if rule.parse::<EntryRule>().is_err() {
            return Err(Error::EntryRule { table, rule });
        }
        if let Some(other) = found.insert(table.clone(), rule.clone()).filter(|o| *o != rule) {
            return Err(Error::EntryRules { table, rules: [other, rule] });
        }
    }
    match free.into_iter().find_map(|table| found.get_key_value(table)) {
        Some((table, rule)) => {
            let rules = ["none".to_string(), rule.clone()];
            Err(Error::EntryRules { table: table.clone(), rules })
        }
        None => Ok(found),
    }
}
