//! Which cases are possible here, and why the others are not. An impossible case is refused with its reason, not run.

use hairpin_model::card::{AnsweredBy, Card, Reach, WhyNot};
use hairpin_model::case::{Case, CpuIdle, Ends, LOOPBACK, Placement, Waiting};
use hairpin_model::ground::Ground;
use hairpin_model::options::OptionName;

use crate::quantity::in_bytes;

/// Whether `case` can be measured on a transport with that card, here.
///
/// # Errors
/// The first reason why not, and what would help.
pub fn check(case: &Case, card: &Card, ground: &Ground) -> Result<(), WhyNot> {
    waiting(case, card)?;
    match card.answered_by {
        AnsweredBy::Kernel => answered_by_kernel(case)?,
        AnsweredBy::EchoHalf => two_halves(case, card, ground)?,
    }
    sizes(case, card)?;
    options(case, card, ground)?;
    if case.cpu_idle == CpuIdle::Shallow {
        ground.may_keep_cpus_awake.clone()?;
    }
    if case.link != LOOPBACK {
        return Err(no_such_link(&case.link));
    }
    Ok(())
}

/// Why a link other than the loopback is refused.
#[must_use]
pub fn no_such_link(name: &str) -> WhyNot {
    let near = hairpin_model::names::nearest(name, &[LOOPBACK]);
    why(
        format!("link `{name}` is not known; emulated links are not in this version"),
        near.map_or_else(|| format!("the only link is `{LOOPBACK}`"), |near| format!("did you mean `{near}`?")),
    )
}

fn why(reason: impl Into<String>, hint: impl Into<String>) -> WhyNot {
    WhyNot { reason: reason.into(), hint: hint.into() }
}

fn waiting(case: &Case, card: &Card) -> Result<(), WhyNot> {
    if card.waitings.contains(&case.waiting) {
        return Ok(());
    }
    let taken: Vec<&str> = card.waitings.iter().map(|waiting| waiting.word()).collect();
    Err(why(format!("it has no waiting `{}`", case.waiting), format!("it takes {}", taken.join(", "))))
}

/// The kernel turns the message round on the CPU that sent it: there is no second end to place or to change.
fn answered_by_kernel(case: &Case) -> Result<(), WhyNot> {
    if case.placement == Placement::Apart {
        return Err(why(
            "the kernel answers on the CPU that sends, so nothing can be apart",
            "use placement together",
        ));
    }
    if case.reply_size_bytes != case.size_bytes {
        return Err(why("the kernel's answer is as long as the message", "leave --reply-size out"));
    }
    if case.plant.is_some() {
        return Err(why("a fault cannot be planted in the kernel", "leave this transport out"));
    }
    if case.ends != Ends::Processes {
        return Err(why("the kernel answers, so there is no second thread", "use ends processes"));
    }
    Ok(())
}

fn two_halves(case: &Case, card: &Card, ground: &Ground) -> Result<(), WhyNot> {
    let one_cpu = ground.cpus.len() < 2;
    if case.placement == Placement::Apart && one_cpu {
        return Err(why("two CPUs are needed and this process may use one", "use placement together"));
    }
    let share_a_cpu = case.placement == Placement::Together || one_cpu;
    if case.waiting == Waiting::Spin && share_a_cpu {
        let hint = if one_cpu { "use waiting block" } else { "use placement apart, or waiting block" };
        return Err(why("a spinning end would keep the other off their one CPU", hint));
    }
    if card.reach == Reach::Process && case.ends == Ends::Processes {
        return Err(why("it joins two threads of one process only", "use ends threads"));
    }
    Ok(())
}

fn sizes(case: &Case, card: &Card) -> Result<(), WhyNot> {
    let range = card.min_message_bytes..=card.max_message_bytes;
    for (what, size) in [("message", case.size_bytes), ("answer", case.reply_size_bytes)] {
        if !range.contains(&size) {
            let hint = format!("{} to {}", in_bytes(card.min_message_bytes), in_bytes(card.max_message_bytes));
            return Err(why(format!("a {what} of {} does not fit", in_bytes(size)), hint));
        }
    }
    Ok(())
}

fn options(case: &Case, card: &Card, ground: &Ground) -> Result<(), WhyNot> {
    for (name, value) in case.options.iter() {
        if !card.options.contains(&name) {
            let taken: Vec<&str> = card.options.iter().map(|option| option.word()).collect();
            let hint =
                if taken.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", taken.join(", ")) };
            return Err(why(format!("it has no option `{name}`"), hint));
        }
        let controls = &ground.congestion_controls;
        if name == OptionName::Congestion && !controls.iter().any(|control| control == value) {
            let hint = format!("one of {}", controls.join(", "));
            return Err(why(format!("congestion control `{value}` is not available here"), hint));
        }
    }
    Ok(())
}
