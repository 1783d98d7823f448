use super::program::Program;

#[test]
fn own_store_sells_no_ticket_twice() {
    let lines = Program::start("own_store", &[], None).succeeds();
    println!("{}", lines.join("\n"));
    let last = lines.last().unwrap();
    assert!(last.starts_with("100 of 100 tickets are sold"), "{last}");
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.contains("a seller"))
            .count(),
        3
    );
}
