// Package page shows in a browser which locks and limits are held, by whom, and
// who waits for them, live. It changes nothing unless [Config.BreakAs] is set.
//
//	locks, err := page.New(store, page.Config{})
//	mux.Handle("/locks/", http.StripPrefix("/locks", requireOperator(locks)))
//	server.RegisterOnShutdown(locks.Close)
//
// It works below any path that ends in a slash, loads nothing from elsewhere,
// and works without script. Middleware around it must let it flush:
// http.TimeoutHandler does not.
//
// All browsers that look at the list share one reading a second, and so do all
// that look at one lock, until 15 minutes after the last has left. A reading
// that takes long is followed by a pause four times as long. 256 may look at
// once, half of them from one client; more are answered with 503.
//
// Meanwhile it notes which leases have ended: it shows the last 100 that were
// lost or broken, and the last 50 holders of each lock in the last hour, in 8
// MiB at most. It sees no lease that is shorter than the time between two
// readings, and can't tell a deleted key from one that was freed.
//
// The page shows names of locks, which may be personal data, and has no
// authentication: put it behind your own. A lease is broken from the page's own
// form alone. Serve a page on a loopback address for its own host names only,
// since a hostile site can make a browser take its name for that address.
package page

// The files, in the order in which to read them:
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
