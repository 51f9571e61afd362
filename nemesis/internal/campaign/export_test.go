package campaign

// LeftOn returns what workers have left on a server.
var LeftOn = leftOn
