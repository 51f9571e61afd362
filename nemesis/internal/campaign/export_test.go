package campaign

var (
	// LeftOn returns what workers have left on a server.
	LeftOn = leftOn
	// TakeAll has all slots of a limit at once.
	TakeAll = takeAll
)
