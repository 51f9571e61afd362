// Package line has this process's places in the lines that locks have on the
// server, and hears when the claim of one was granted, when one is to ask, or
// that a lock is free. It knows names, numbers of places and channels, and
// sends no request about a lock. What a line and a place are on the server is
// said in tell.lua, and what a turn is, of a limit, in slots.lua.
//
// [Line] alone keeps what is known of places, under one mutex:
//
//	a caller asks           Present notes its place, if this process could hear of its turn; and
//	                        what was heard of the lock so far is known to it
//	the server has refused  Refused: the place stands in the line since then, or has no rank
//	the lock is its own     Leave: the place is a lease now
//	the caller has left     GiveUp
//	no answer               the place may be in the line, and is kept until it is given up
//	a grant was heard of    Given: it answers the next claim from the place, which is a lease now
//	one was given away      Gave: the process that got it may be stuck, so the server is asked to
//	                        look when it is over, or a turn is
//
// A place stands in a line only once this process could hear that its turn has
// come: a claim presents it as soon as the mailbox is open, and none before.
// When the mailbox opens, and opens again after a failure, all who wait ask: a
// message may have passed unheard.
//
//	line.go     places
//	names.go    the names that callers here wait for, and whom to wake
//	mailbox.go  the channels by which this process alone hears of grants and turns
//	turns.go    grants and turns that releases of this process have given
//	faces.go    what others are shown of who waits here
package line
