//! A digest of an order, with which a client checks that a server on another host understood the order.

use hairpin_model::RoundOrder;
use ring::digest::{Context, SHA256};
use serde_json::{Value, json};

/// Returns the digest of an order: SHA-256 over its JSON, in 16 hexadecimal digits. Fields without a value (null, false, 0,
/// empty) are omitted and the others sorted by name, so that versions that differ only in such fields compute the same digest.
pub fn order_digest(order: &RoundOrder) -> String {
    let mut context = Context::new(&SHA256);
    update(&mut context, &json!(order));
    context.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn update(context: &mut Context, value: &Value) {
    match value {
        Value::Object(fields) => {
            context.update(b"{");
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| has_value(value)).collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, value) in fields {
                context.update(json!(name).to_string().as_bytes());
                update(context, value);
            }
            context.update(b"}");
        }
        Value::Array(values) => {
            context.update(b"[");
            values.iter().for_each(|value| update(context, value));
            context.update(b"]");
        }
        // A whole number may be written with or without a fraction.
        Value::Number(number) => context.update(format!("{:?};", number.as_f64()).as_bytes()),
        other => context.update(other.to_string().as_bytes()),
    }
}

/// Whether a field has a value that changes what is ordered. An object has one if one of its fields does.
pub fn has_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_set) => *is_set,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => fields.values().any(has_value),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Direction;
    use hairpin_model::{Case, Flow};

    use super::*;

    fn digest_of(value: &Value) -> String {
        let mut context = Context::new(&SHA256);
        update(&mut context, value);
        context.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn orders_that_differ_have_other_digests_and_fields_without_a_value_change_nothing() {
        let order = |flow| RoundOrder::of(Case::of(flow), 5);
        let [one, other] = [Flow::ping_pong("tcp"), Flow::stream("tcp", 100, Direction::Up)].map(order);
        assert_eq!(order_digest(&one), order_digest(&one.clone()));
        assert_ne!(order_digest(&one), order_digest(&other));
        let mut value = json!(one);
        let before = digest_of(&value);
        value["later"] = json!({ "nested": [], "more": { "none": null } });
        assert_eq!(digest_of(&value), before);
        for (later, changed) in [(json!(7), true), (json!([0]), true), (json!({ "a": "b" }), true), (json!(0), false)]
        {
            value["later"] = later;
            assert_eq!(digest_of(&value) != before, changed, "{value}");
        }
        let pairs = [(json!({ "a": 1, "b": 2.0 }), json!({ "b": 2, "a": 1 }))];
        assert!(pairs.iter().all(|(one, other)| digest_of(one) == digest_of(other)));
        assert_ne!(digest_of(&json!([[1], 2])), digest_of(&json!([[1, 2]])));
    }
}
