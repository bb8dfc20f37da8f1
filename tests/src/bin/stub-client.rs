//! What job files of the tests use as `run` and `reconcile` to talk to the stub:
//! `stub-client call ADDRESS` and `stub-client ask ADDRESS`.
//!
//! Exit codes of `call`: 0 done, 10 refused or voided, 75 not connected, 1 no reply.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;

use serde_json::{Value, json};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, op, address] = &arguments[..] else {
        eprintln!("usage: stub-client call|ask ADDRESS");
        return ExitCode::from(10);
    };
    let mut body = String::new();
    if op == "call" {
        std::io::stdin().read_to_string(&mut body).unwrap();
    }
    let attempt: u32 = std::env::var("INTENDANT_ATTEMPT").unwrap().parse().unwrap();
    let key = std::env::var("INTENDANT_IDEMPOTENCY_KEY").unwrap();
    let request = json!({"op": op, "key": key, "attempt": attempt, "body": body});

    let Ok(mut stream) = TcpStream::connect(address) else {
        eprintln!("nobody listens at {address}");
        return ExitCode::from(75);
    };
    let mut line = String::new();
    let spoken = stream
        .write_all(format!("{request}\n").as_bytes())
        .and_then(|()| BufReader::new(stream).read_line(&mut line));
    let Some(reply) = spoken
        .ok()
        .and_then(|_| serde_json::from_str::<Value>(&line).ok())
    else {
        eprintln!("no reply");
        return ExitCode::from(1);
    };
    if op == "ask" {
        println!("{reply}");
    } else if let Some(output) = reply.get("output") {
        println!("{output}");
    } else {
        eprintln!("{reply}");
        return ExitCode::from(10);
    }
    ExitCode::SUCCESS
}
