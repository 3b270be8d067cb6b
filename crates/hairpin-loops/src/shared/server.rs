//! The server of a shared connection. Answers the probe's messages, and receives or sends the load.

use hairpin_model::{Failure, FailureKind, Streamed};
use hairpin_transports::Wire;

use super::bulk::Bulk;
use super::client::{is_closed, other_version, unreadable};
use super::frames::{FrameKind, Incoming, Outgoing, ReceivedFrame};
use super::{BulkOrder, POLL_INTERVAL_NS, Waits, broken};
use crate::clock::Clock;
use crate::marks::{Notice, ServerMarks};
use crate::message::patterned;

/// Maximum number and maximum bytes of queued answers, which grow if the client does not read.
const MAX_UNANSWERED: usize = 1 << 16;
const MAX_UNANSWERED_BYTES: usize = 64 << 20;

/// Serves until the client closes the connection or reports that the load is over. Answers have `reply_size` bytes.
pub fn run<C: Clock>(
    clock: &C,
    wire: &mut dyn Wire,
    marks: &mut dyn ServerMarks,
    reply_size: usize,
    load: BulkOrder,
) -> Result<Streamed, Failure> {
    let (mut out, mut incoming, mut waits) =
        (Outgoing::new(load.write_size_bytes), Incoming::default(), Waits::new(wire)?);
    let mut bulk = Bulk::new(load, !load.goes_up);
    let mut reply = patterned(reply_size);
    let (mut measuring, mut looked_ns, mut messages_bytes, mut answers) = (false, 0, 0, 0);
    loop {
        let now_ns = clock.now_ns();
        if !measuring || now_ns.saturating_sub(looked_ns) >= POLL_INTERVAL_NS {
            looked_ns = now_ns;
            let (came_bytes, sent_bytes) = bulk.moved_bytes();
            marks.moved(came_bytes + messages_bytes, sent_bytes + answers * reply_size as u64)?;
            match marks.look()? {
                Notice::Stop => break,
                Notice::Measure if !measuring => {
                    marks.begin()?;
                    measuring = true;
                }
                Notice::Measure | Notice::Nothing => {}
            }
        }
        let mut unexpected = None;
        let read = incoming.read(wire, &mut |came| match came {
            ReceivedFrame::Bulk { measured, bytes } => bulk.on_bytes(measured, bytes, clock.now_ns()),
            ReceivedFrame::Whole(FrameKind::Message, bytes) => {
                let common = bytes.len().min(reply.len());
                reply[..common].copy_from_slice(&bytes[..common]);
                messages_bytes += bytes.len() as u64;
                answers += 1;
                out.push(FrameKind::Answer, &reply, None);
            }
            ReceivedFrame::Whole(FrameKind::Begin, _) if bulk.sends && bulk.begin(now_ns) => {}
            ReceivedFrame::Whole(FrameKind::End, _) if !bulk.sends => bulk.has_ended = true,
            ReceivedFrame::Whole(kind, _) => unexpected = Some(kind),
        });
        let came = match read {
            Ok(came) => came,
            Err(error) if is_closed(&error) => break,
            Err(error) => return Err(unreadable(&error)),
        };
        if let Some(kind) = unexpected {
            return Err(other_version(format!("unexpected frame {kind:?} from the client")));
        }
        if out.queued() > MAX_UNANSWERED.min(MAX_UNANSWERED_BYTES / reply_size.max(1)) {
            return Err(Failure::new(
                FailureKind::Unexpected,
                format!("the client sends messages but has not read {} answers", out.queued()),
                "is a program other than Hairpin's client sending?",
            ));
        }
        if bulk.ends(now_ns) {
            out.push(FrameKind::End, &[], None);
        }
        let written = out.write(wire, bulk.phase(now_ns)).map_err(|error| broken("write to", &error))?;
        bulk.wrote(written.bulk_frames, clock.now_ns());
        bulk.look(now_ns, wire);
        if !came && (written.has_no_room || bulk.phase(now_ns).is_none()) {
            waits.wait(clock, wire, now_ns + POLL_INTERVAL_NS, written.has_no_room)?;
        }
    }
    Ok(bulk.ended())
}
