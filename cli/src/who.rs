//! Who asks: the user behind a process, as it is recorded.

/// `uid:1000 (alice)`; the name is left out where the system's list does not have it.
pub(crate) fn who(uid: u32) -> String {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match name_in(&passwd, uid) {
        Some(name) => format!("uid:{uid} ({name})"),
        None => format!("uid:{uid}"),
    }
}

/// The user of this process.
pub(crate) fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn name_in(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id: u32 = fields.nth(1)?.parse().ok()?;
        (id == uid && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_systems_list() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbad\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(name_in(passwd, 1000), Some("alice"));
        assert_eq!(name_in(passwd, 0), Some("root"));
        assert_eq!(name_in(passwd, 7), None);
    }
}
