// Package page shows in a browser which locks and limits are held, by whom, and who waits for them,
// live, as an http.Handler. It reads what package inspect reads, and changes nothing unless
// [Config.BreakAs] is set.
//
//	locks, err := page.New(store, page.Config{})
//	mux.Handle("/locks/", http.StripPrefix("/locks", requireOperator(locks)))
//	server.RegisterOnShutdown(locks.Close)
//
// It works below any path that ends in a slash, loads nothing from elsewhere, and works without
// script as tables that are reloaded by hand.
//
// # What it asks of the store
//
// All browsers that look at the list share one reading a second, and so do all that look at one
// lock. The list is read for 15 minutes after the last browser with script has left; then nothing
// is read. A reading that takes long is followed by a pause four times as long. Browsers are sent
// differences. One that takes them too slowly is cut off and comes again by itself. 256 may look at
// once, and 256 locks are read by themselves; one client has half of these at most, and more are
// answered with 503. Middleware around the page must let it flush, as http.ResponseController does:
// http.TimeoutHandler does not.
//
// # What it keeps
//
// Between two readings it notes which leases have ended: it shows the last 100 that were lost or
// broken, and the last 50 holders of each lock in the last hour, and finds them by the hash that
// logs show. That is in memory, 8 MiB at most, from the first reading of the list to the last. It
// says for how long it has looked. It sees no lease that is shorter than the time between two
// readings, can't tell a deleted key from one that was freed, and calls a lease lost if it was seen
// to be renewed twice, and was not when it was due.
//
// # Who may see it
//
// Names of locks may be personal data, and the page shows them: put it behind your own
// authentication. It has none. A request that breaks a lease is a POST from the page itself, by
// Sec-Fetch-Site or Origin, with a token that only the page's own form has. A page on a loopback
// address should be served for its own host names only, since a hostile site can make a browser
// take its name for that address.
package page

// The files, in the order in which to read them. A file uses those below it only.
//
//	config.go                what can be set up
//	page.go                  a request comes in
//	list.go, lock.go         the two pages
//	glance.go                the first row: is anything bad?
//	hash.go                  the lock that logs show as a hash
//	breaking.go, origin.go   a lease is broken, by a request of the page itself
//	stream.go                what is sent to those who look
//	feed.go                  one reader for all of them
//	seats.go                 how many may look
//	rows.go, slots.go        what is read, and what is new in it
//	history.go               which leases have ended, and how
//	past.go, former.go       what is kept of these
//	fault.go, text.go        what people read
//	files.go                 what browsers load
