use super::program::Program;

#[test]
fn late_writes_are_rejected_in_every_way() {
    let lines = Program::start("writes", &[], None).succeeds();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    for line in lines {
        assert!(
            line.ends_with("accepted: true, the late one: false"),
            "{line}"
        );
    }
}
