package simtest_test

// faults are what a server can be made to do wrong, to see that the simulation
// finds it.
type faults struct {
	// renewalShortens: a renewal sets the TTL, though more of it was left.
	renewalShortens bool
	// freesAnybodys: a release does not compare the owner token.
	freesAnybodys bool
	// refusesItsOwner: an acquire that is repeated is refused, as held by
	// itself.
	refusesItsOwner bool
	// grantsAnew: an acquire that is repeated gets another token.
	grantsAnew bool
	// forgetsReserved: tokens reserved for hand-offs are granted again.
	forgetsReserved bool
	// toldTwice: what was granted to a place is told to the next place of that
	// process as well.
	toldTwice bool
	// oneMore: a limit admits one more than it says.
	oneMore bool
	// slotTwice: an acquire that is repeated gets a second slot.
	slotTwice bool
	// twoMarks: tokens of one name come from two marks.
	twoMarks bool
}
