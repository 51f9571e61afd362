// Httpserver shows HTTP handlers under a lock that they never see. Two
// servers, "web-1" and "web-2", take money from the same accounts. Of
// the requests for one account one runs at a time, on whichever server.
//
//	go run ./examples/httpserver                             # needs nothing else: Redis runs inside the program
//	go run ./examples/httpserver -redis localhost:6379       # on your own server, which is left as it was found
//	go run ./examples/httpserver -listen localhost:8080      # and goes on serving, for a curl of your own
//
// It sends requests, real ones, and prints them as curl commands with their
// answers: what a client gets that waits in line, is refused, names nothing to
// lock, or comes when Redis is gone. Then it races transfers, without the lock
// and with it. The exit status is 1 if anything that it claims did not hold.
//
// What you would write yourself is in server.go. The rest plays the
// clients: story.go and race.go say what happens, curl.go sends and prints.
package main

import "github.com/lockbeat/lockbeat/examples/internal/stage"

func main() { stage.Main("httpserver", tell) }
