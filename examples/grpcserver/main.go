// Grpcserver shows gRPC calls under a lock that their handlers never see.
// Two servers, "bank-1" and "bank-2", take money from the same accounts.
// Of the calls for one account one runs at a time, on whichever server.
//
//	go run ./examples/grpcserver                             # needs nothing else: Redis runs inside the program
//	go run ./examples/grpcserver -redis localhost:6379       # on your own server, which is left as it was found
//	go run ./examples/grpcserver -listen localhost:9090      # and goes on serving, for a grpcurl of your own
//
// It makes calls, real ones, and prints them as grpcurl commands with what came:
// what a client gets that waits in line, is refused, retries, names nothing to lock,
// or has a stream open when Redis is gone. Then it races transfers, without the lock
// and with it. The exit status is 1 if anything that it claims did not hold.
//
// What you would write yourself is in server.go. The rest plays the clients: story.go and race.go
// say what happens, client.go and counter.go call and print. The service is in bank/bank.proto.
package main

import "github.com/lockbeat/lockbeat/examples/internal/stage"

func main() { stage.Main("grpcserver", tell) }
