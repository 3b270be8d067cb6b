//! Echoes WebSocket messages.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, accept_with_config};

use super::limits::{Connection, IDLE_TIMEOUT, MAX_MESSAGE_BYTES};

pub(super) fn serve(stream: TcpStream, connection: &Connection) {
    drop(stream.set_nodelay(true));
    let limited =
        stream.set_read_timeout(Some(IDLE_TIMEOUT)).and_then(|()| stream.set_write_timeout(Some(IDLE_TIMEOUT)));
    let limit = Some(MAX_MESSAGE_BYTES);
    let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
    let stream = Limited { stream, bytes: 0 };
    let (Ok(()), Ok(mut socket)) = (limited, accept_with_config(stream, Some(config))) else { return };
    while !connection.is_over() {
        match socket.read() {
            Ok(message @ (Message::Binary(_) | Message::Text(_))) => {
                socket.get_mut().bytes = 0;
                connection.count_and_sleep(message.len());
                if socket.send(message).is_err() {
                    return;
                }
            }
            // The library answers pings and closings itself.
            Ok(_) => {}
            Err(_) => return,
        }
    }
    drop(socket.close(None));
}

/// A stream that fails once a client has sent much that is no message, such as pings and empty frames.
struct Limited {
    stream: TcpStream,
    /// Bytes since the last message.
    bytes: usize,
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes > 2 * MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let count = self.stream.read(into)?;
        self.bytes += count;
        Ok(count)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
